"""Which part an exchange plays, and copies of bodies that are read: pure."""

import gzip
import zlib

import pytest
from rollcall_proxy.encoding import decoded
from rollcall_proxy.fields import request_fields
from rollcall_proxy.roles import asked_by, role_of, without_prefix


@pytest.mark.parametrize(
    ("kind", "path", "parent", "role"),
    [
        ("agent", "/run", None, "run"),
        ("environment", "/run", None, "run"),
        ("agent", "/ng-rollout/3-0/run", "run", "run"),
        ("agent", "/v1/responses", "run", "agent"),
        ("model", "/v1/responses", "agent", "model"),
        ("model", "/v1/chat/completions", "agent", "model"),
        ("model", "/v1/messages", "agent", "model"),
        ("model", "/v1/responses", "verify", "judge"),
        ("model", "/ng-rollout/3-0/training-token-capture/v1/responses", "verify", "judge"),
        ("model", "/v1/models", "agent", "other"),
        ("agent", "/", None, "other"),
        ("resources", "/seed_session", "run", "seed_session"),
        ("resources", "/verify", "run", "verify"),
        ("resources", "/close_session", "run", "close_session"),
        ("resources", "/get_weather", "run", "tool"),
        ("resources", "/v1/responses", "run", "tool"),
        ("agent", "/aggregate_metrics", None, "aggregate_metrics"),
        ("unknown", "/v1/responses", None, "model"),
    ],
)
def test_an_exchanges_role_follows_from_its_server_and_path(
    kind: str, path: str, parent: str | None, role: str
) -> None:
    """What a model is asked while a resources server verifies is a judge's."""
    assert asked_by(parent, role_of(kind, path)) == role  # type: ignore[arg-type]  # the kinds of the table


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/ng-rollout/3-0/verify", "/verify"),
        ("/ng-rollout/3-0-a1/training-token-capture/v1/responses", "/v1/responses"),
        ("/ng-rollout/3-0", ""),
        ("/ng-rollout//verify", "/ng-rollout//verify"),
        ("/ng-rollouts/3-0/verify", "/ng-rollouts/3-0/verify"),
        ("/x/ng-rollout/3-0/verify", "/x/ng-rollout/3-0/verify"),
    ],
)
def test_gyms_path_prefix_is_taken_off_where_it_is_one(path: str, plain: str) -> None:
    """Only at the beginning, only whole, with the token-capture segment."""
    assert without_prefix(path) == plain


BODY = b'{"reward": 1.0}' * 100


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("", BODY),
        ("identity", BODY),
        ("gzip", gzip.compress(BODY)),
        ("x-gzip", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("GZIP, gzip", gzip.compress(gzip.compress(BODY))),
        ("deflate, gzip", gzip.compress(zlib.compress(BODY))),
    ],
)
def test_a_coded_body_can_be_read(coding: str, body: bytes) -> None:
    """The codings of RFC 9110, also one on top of another, the last one outermost."""
    assert decoded(body, coding) == BODY


@pytest.mark.parametrize(
    ("coding", "body"), [("br", BODY), ("gzip", BODY), ("gzip", gzip.compress(BODY)[:-9]), ("gzip, zstd", BODY)]
)
def test_what_cannot_be_read_is_none_and_never_a_part(coding: str, body: bytes) -> None:
    """An unknown coding, another content than it says, half a stream."""
    assert decoded(body, coding) is None


def test_a_request_names_rollcalls_owner_alone() -> None:
    """Whatever was there before, in whatever spelling."""
    raw = [(b"rollcall-owner", b"x"), (b"Rollcall-Owner", b"y"), (b"Rollcall-Session", b"s"), (b"Host", b"gym")]
    assert request_fields(raw, "mine") == [(b"Host", b"gym"), (b"Rollcall-Owner", b"mine")]
