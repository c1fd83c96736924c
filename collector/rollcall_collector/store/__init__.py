"""What the collector keeps, and its promises.

1. What `Writer.submit` has returned is committed: it survives a crash of the process and of the machine (SQLite's
   synchronous=FULL, PostgreSQL's synchronous_commit=on).
2. Each event has its effect once, however often its sender repeats it: a sender numbers its events and the store
   keeps the highest number taken in.
3. Events of one sender take effect in the order of their numbers.
4. The counts of a run are read in one statement, so that
   `expected = succeeded + failed + omitted + running + missing` holds in every answer.
5. A dispatch that another one of its rollout has replaced keeps its tags, which decide nothing.
6. On PostgreSQL all of this holds for any number of collectors together: none has state of its own.
7. What is asked of a run takes as long for a million rollouts as for a thousand, but for groups of failures, whole
   lists, pages far on in a list, and a search for words.
"""

from .database import DatabaseError, exists, open_database
from .reading import Reader
from .writer import StoreBusyError, Writer

__all__ = ["DatabaseError", "Reader", "StoreBusyError", "Writer", "exists", "open_database"]
