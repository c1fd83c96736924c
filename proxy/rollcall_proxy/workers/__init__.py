"""`rollcall proxy --workers N`: more processes that carry calls, for one that knows.

The *first process* is the proxy as it is without workers: main port, ledger, outermost `/run`s, re-sends, sessions,
the way to the collector. A *worker* does by itself what needs nothing of that: an exchange whose owner a token names
(`sharing`). The two speak over one socket pair, in which nothing overtakes anything (`channel`).

- The first process accepts all connections and gives each one to the process that has the fewest of that listener
  (`pool`): the few, long-lived connections of an agent are spread evenly, which neither a shared listening socket nor
  the kernel's hash would do.
- A request that a worker must not answer goes back together with its connection, and with what has been read of it
  (`wire.Exchange.hand_over`): the first process reads it as if it had come there. So nobody stands in between, and a
  caller that leaves is a caller that leaves. The connection returns with the first request that a worker may answer.
- A good exchange costs a worker a count. A bad one is told to the first process, and its caller has the end of
  its answer only when the tag is in the ledger, is stored, and all workers know that the call stands failed
  (`Records.keep`, `spread`). A worker tells of a good exchange what could heal such a call (`standing`).
- Before the first process judges a dispatch it asks all workers to tell what they hold (`Pool.settled`). What an agent
  was answered before it answered `/run` has been written to the socket before: it is there when the reply is.
- Whether a server refuses or is leaving, every process is told (`upstream.Window`, `departing.Departure`); a tag is
  blamed on a leaving server by the first process.
- A worker that dies takes with it what it had not told. Every dispatch that is open then fails by a tag that says so,
  as of the moment at which the worker was last heard; owners of other proxies are unattributed at each server that it
  had connections for. Another worker is started.
- A worker ends when the socket says that the first process has.
"""
