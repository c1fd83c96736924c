"""Who may ask a service for what, from a request's head alone."""

import pytest
from rollcall_collector.access import Access, Asked, Reason
from rollcall_collector.tokens import Right, Tokens

WRITE, READ = "w" * 32, "r" * 32


def asked(method: str = "GET", path: str = "/v1/runs", query: str = "", **fields: str) -> Asked:
    """A request; the fields' names have `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return Asked(method, path, dict.fromkeys(filter(None, [query]), "x"), {"Host": "127.0.0.1:7078"} | named)


def bearer(token: str) -> str:
    return f"Bearer {token}"


def reason(request: Asked, *names: str, tokens: Tokens | None = None) -> Reason | None:
    refusal = Access(tokens or Tokens(), names, "ROLLCALL_COLLECTOR_").refusal(request)
    return refusal.reason if refusal else None


@pytest.mark.parametrize(
    ("method", "path", "query", "right"),
    [
        ("GET", "/healthz", "", Right.NONE),
        ("HEAD", "/readyz", "", Right.NONE),
        ("POST", "/readyz", "", Right.WRITE),
        ("GET", "/", "", Right.READ),
        ("GET", "/metrics", "", Right.READ),
        ("GET", "/v1/runs/r-1/gate", "", Right.READ),
        ("GET", "/v1/runs/r-1/gate", "told_by", Right.WRITE),
        ("POST", "/v1/runs/r-1/gate", "", Right.WRITE),
        ("PUT", "/v1/sessions/s-1", "", Right.WRITE),
        ("POST", "/v1/config", "", Right.WRITE),
        ("GET", "/global_config_dict_yaml", "", Right.WRITE),
        ("QUERY", "/v1/runs", "", Right.WRITE),
    ],
)
def test_what_changes_nothing_takes_the_right_to_read(method: str, path: str, query: str, right: Right) -> None:
    """All else takes that to write; Gym's config opens listeners and holds keys, though it is asked by GET."""
    assert asked(method, path, query).needs is right


@pytest.mark.parametrize(
    ("token", "method", "found"),
    [
        (None, "GET", "token"),
        ("", "GET", "token"),
        (WRITE[:-1], "GET", "token"),
        (WRITE + "w", "GET", "token"),
        (WRITE.upper(), "GET", "token"),
        (READ, "GET", None),
        (READ, "POST", "right"),
        (WRITE, "GET", None),
        (WRITE, "POST", None),
    ],
)
def test_a_token_gives_its_right_and_no_part_of_it_does(token: str | None, method: str, found: Reason | None) -> None:
    """Neither its beginning, nor more than it."""
    request = asked(method) if token is None else asked(method, Authorization=bearer(token))
    assert reason(request, tokens=Tokens(WRITE, READ)) == found


def test_probes_need_no_token_but_a_wrong_one_is_refused() -> None:
    """So that a proxy finds out by them that it has the wrong one."""
    tokens = Tokens(WRITE)
    assert reason(asked(path="/readyz"), tokens=tokens) is None
    assert reason(asked(path="/readyz", Authorization=bearer("other" * 8)), tokens=tokens) == "token"


def test_a_token_in_the_url_counts_for_nothing() -> None:
    """And the answer says where it belongs."""
    refusal = Access(Tokens(WRITE), (), "ROLLCALL_COLLECTOR_").refusal(
        Asked("GET", "/v1/runs", {"token": WRITE}, {"Host": "127.0.0.1"})
    )
    assert refusal is not None
    assert (refusal.status, "none is taken from a URL" in refusal.detail) == (401, True)
    assert [(name, value.split()[0]) for name, value in refusal.fields] == [
        ("WWW-Authenticate", "Basic"),
        ("WWW-Authenticate", "Bearer"),
    ]


@pytest.mark.parametrize("host", ["127.0.0.1:7078", "10.2.3.4", "[::1]:7078", "localhost:1", "a.localhost", "Box.", ""])
def test_an_address_localhost_and_the_services_names_are_known(host: str) -> None:
    """An address cannot be pointed here by somebody else's name server."""
    assert reason(asked(Host=host), "box") is None


@pytest.mark.parametrize("host", ["attacker.example:7078", "localhost.attacker.example", "box.example", "127.0.0.1.x"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_name_is_refused(host: str, method: str) -> None:
    """DNS rebinding."""
    assert reason(asked(method, Host=host), "box") == "host"


@pytest.mark.parametrize(
    "fields",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "http://attacker.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site", "Origin": "http://127.0.0.1:7078"},
    ],
)
def test_a_change_from_another_origin_is_refused(fields: dict[str, str]) -> None:
    """Also from another port of this machine, and with the right token; what only reads is not."""
    shown = {"Authorization": bearer(WRITE)}
    assert reason(asked("POST", **fields, **shown), tokens=Tokens(WRITE)) == "cross_site"
    assert reason(asked("GET", **fields, **shown), tokens=Tokens(WRITE)) is None
    assert reason(asked("GET", "/global_config_dict_yaml", **fields)) == "cross_site"


@pytest.mark.parametrize(
    "fields",
    [{}, {"Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "none"}, {"Origin": "http://127.0.0.1:7078"}],
)
def test_a_change_from_the_page_itself_or_from_a_program_is_not(fields: dict[str, str]) -> None:
    """Programs send neither field."""
    assert reason(asked("POST", **fields)) is None


def test_what_is_meant_for_an_http_proxy_shows_its_token_to_the_proxy() -> None:
    """RFC 9110 11.7: an Authorization field is for the server behind it."""
    shown = {"Proxy-Authorization": bearer(WRITE)}
    access = Access(Tokens(WRITE), (), "ROLLCALL_PROXY_")
    host = {"Host": "agent.example"}
    assert access.refusal(Asked("GET", "/healthz", {}, host | shown, proxied=True)) is None
    refusal = access.refusal(Asked("GET", "/healthz", {}, host | {"Authorization": bearer(WRITE)}, proxied=True))
    assert refusal is not None
    assert (refusal.status, {name for name, _ in refusal.fields}) == (407, {"Proxy-Authenticate"})
