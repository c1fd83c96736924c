"""`make bench`: what Rollcall's data path costs, side by side in one run with proxies that are known.

Whatever is compared is alternated (A B A B …), and ratios are medians of each round's own ratio: another job on the
machine then slows both sides alike. Proxies have a core to themselves; load, upstream and collector have the others.
"""
