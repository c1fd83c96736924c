"""What is read out of a body that has come whole. Whatever goes wrong in here, what has failed must be on record."""

import logging
from typing import Any

import orjson
from rollcall_collector.contract.exchange import is_keepable

from .departing import HINT_BYTES, is_hint
from .encoding import decoded
from .exchange import Bad

log = logging.getLogger(__name__)


def hint_in(bad: Bad) -> bool:
    """Whether what was answered may have been answered only because the server is being shut down."""
    if bad.status != 500 or len(bad.body) > HINT_BYTES:
        return False
    body = bytes(bad.body)
    try:
        return is_hint(bad.status, (decoded(body, bad.coding) or b"") if bad.coding else body)
    except Exception:
        log.exception("reading a failed answer failed in Rollcall; it is taken for no sign of a server that leaves")
        return False


def response_in(body: bytes, coding: str) -> dict[str, Any] | None:
    """The `response` in a `/verify` request."""
    try:
        asked = orjson.loads(decoded(body, coding) or b"")
        response = asked.get("response") if isinstance(asked, dict) else None
        return response if isinstance(response, dict) and is_keepable(response) else None
    except orjson.JSONDecodeError:
        return None
    except Exception:
        log.exception("reading a /verify request failed in Rollcall; its response is not kept")
        return None
