"""The time of day that never jumps: what a machine's clock said at the start, and the seconds since.

Which exchange ended before which answer began decides verdicts; a clock that is set in between must not.
"""

import time

_START = time.time() - time.monotonic()


def now() -> float:
    """Now, in seconds since the epoch."""
    return _START + time.monotonic()
