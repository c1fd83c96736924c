"""An HTTP/1.1 engine for a proxy: it passes exchanges on, byte for byte, and lets somebody look on.

It knows nothing of whose calls it carries. The way of one exchange:

1. A `CallerConnection` (caller.py) reads a request's head (head.py) and finds out how its body is framed (body.py).
   What has two readings is answered 400, and nothing of it is passed on.
2. It makes an `Exchange` (exchange.py), the caller's half, and calls the listener's handler. That returns at once; now
   or later somebody calls `pass_on`, `answer`, or `read_body`.
3. `pass_on` makes a `Passage` (passage.py). It takes an idle connection from the `Engine` (engine.py), or opens one,
   and sends the head without what belongs to one hop (hop.py). Every piece of the body goes to the `Consumer`, who
   looks on, and to the `ServerConnection` (server.py), in the same turn of the loop.
4. The answer comes back the same way: `on_answer_head`, `on_answer_piece` for each piece, `on_end`. What the consumer
   holds waits until it calls `release`; everything else has been sent when the method returns.
5. When both sides are whole, the server's connection goes back to the engine, where it may have to rest (resting.py),
   and the caller's reads its next request.

No exchange has a task or a timer of its own. Time is looked at once a tick for all connections (`Limits`,
`Settings`). A side that is behind makes the other one wait: a connection whose buffer is full stops the reading of its
peer. A caller that has left is seen at once, and its server's connection is closed, unless the consumer `keeps` it. A
server that goes away within its answer is seen by the caller as a cut-off, never as an end.

What it changes: fields of one hop, the version (always HTTP/1.1), chunk sizes and extensions, white space around
values. It adds `Connection` where the hop needs it, and no other field. `Expect: 100-continue` is answered here, once
the server is connected. HTTP/1.0 callers get no chunks, and their connection is closed after each answer.

Coroutines use `Exchange.read_body`, `Engine.send` (an `Answer` whose `pieces` come as they arrive), and
`Exchange.begin`, `piece`, `ready`, `end`, `cut`.
"""

from .asking import Answer, FailedError
from .body import Framing
from .engine import Engine
from .exchange import BodyTooLargeError, Exchange
from .head import AnswerHead, Field, Fields, FramingError, RequestHead
from .limits import NO_LIMITS, WHOLE, Address, Limits, Outcome, Settings
from .passage import Consumer, Passage, Step

__all__ = [
    "NO_LIMITS",
    "WHOLE",
    "Address",
    "Answer",
    "AnswerHead",
    "BodyTooLargeError",
    "Consumer",
    "Engine",
    "Exchange",
    "FailedError",
    "Field",
    "Fields",
    "Framing",
    "FramingError",
    "Limits",
    "Outcome",
    "Passage",
    "RequestHead",
    "Settings",
    "Step",
]
