"""The failure contract as pure code: no socket, no file, no clock.

What an exchange is and how it can end (`exchange`), which exchanges are one call (`calls`), what a `/run` answer
says (`answer`), what becomes of a dispatch (`verdict`), the row a failed one leaves (`row`), and when metrics are
released (`gate`). Proxy, collector and runner all decide with these functions, so they cannot disagree.
"""
