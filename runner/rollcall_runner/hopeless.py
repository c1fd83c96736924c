"""Root causes that sending a rollout again cannot mend: who asks must change something first.

Narrow on purpose: a status alone is one only where a model was called, and a text only in the words that providers
use for it. A model server's own 500 carries the provider's answer in its text.
"""

import re
from collections.abc import Mapping
from typing import Any

_ASKED = ("model", "judge", "provider")

_BY_STATUS = {401: "the key was refused (401)", 402: "payment is required (402)", 403: "access was refused (403)"}

_BY_TEXT = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"\binsufficient_quota\b|exceeded your current quota|credit balance is too low", "the quota is used up"),
        (r"\bbilling_(?:hard_limit_reached|not_active)\b|check your plan and billing", "the account's billing"),
        (r"\binvalid_api_key\b|incorrect api key|invalid x-api-key", "the key was refused"),
        (r"\bmodel_not_found\b|\bthe model\b.{0,200}\bdoes not exist\b", "there is no such model"),
        (r"\b(?:error code|status(?:_code)?)\W{1,3}401\b", "the key was refused (401)"),
        (r"\b(?:error code|status(?:_code)?)\W{1,3}402\b", "payment is required (402)"),
        (r"\b(?:error code|status(?:_code)?)\W{1,3}403\b", "access was refused (403)"),
    )
)


def why_hopeless(cause: Mapping[str, Any] | None) -> str | None:
    """Why a retry cannot mend a failure with this root cause, or None where it may."""
    if cause is None or cause["role"] not in _ASKED or cause["what"] not in ("http_status", "body_failure"):
        return None
    said = f"{cause['excerpt'] or ''} {cause['message'] or ''}"
    found = next((reason for pattern, reason in _BY_TEXT if pattern.search(said)), None)
    by_status = _BY_STATUS.get(cause["status"]) if cause["what"] == "http_status" else None
    if cause["status"] == 404 and re.search(r"\bmodel\b.{0,200}\bnot found\b", said, re.IGNORECASE | re.DOTALL):
        by_status = "there is no such model (404)"
    return found or by_status
