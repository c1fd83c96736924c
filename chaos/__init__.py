"""Random kills and partitions of every part during a run whose truth is known apart from Rollcall.

`python -m chaos --seeds 1-20`: each seed is a round. A round has servers that meet the faults of a plan and keep, each
in a file of its own, what they really heard and said; a dispatcher that does as Gym's does, with the real attach; a
proxy and a collector; and acts, drawn from the seed, that kill, stop and cut them apart. Then the run is resumed until
nothing is left to send, and what lies in its files is held against what the servers wrote down.

What a seed fixes is which rollouts meet which fault, and the acts with their order and the count of events at which
each begins. The machine's own timing is not replayed.
"""
