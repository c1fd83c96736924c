"""Which good exchanges concern the ledger, against what they then do."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.calls import CallKey
from rollcall_collector.contract.exchange import DispatchBegun, Tag
from rollcall_collector.contract.policy import Policy
from rollcall_proxy.inheriting import CallIds, Standing
from rollcall_proxy.ledger import Ledger

DISPATCHES = ["d-1", "d-2", "d-3"]
SERVERS = ["model", "tools"]
Step = st.tuples(
    st.sampled_from(["begin", "bad", "good", "close", "inherit"]),
    st.sampled_from(DISPATCHES),
    st.sampled_from(SERVERS),
    st.sampled_from([b"one", b"two", b"three"]),
)


class World:
    """A ledger whose clock goes one second further with each step."""

    def __init__(self) -> None:
        self.ids = CallIds("abcdef", "process")
        self.ledger = Ledger(self.ids.new, Policy)
        self.now = 0.0
        self._numbers = count(1)

    def begin(self, dispatch: str) -> None:
        if not self.ledger.is_open(dispatch):
            self.ledger.begin(DispatchBegun(dispatch, "s", "r", "b", "0-0", "agent", self.now))

    def bad(self, dispatch: str, key: CallKey) -> None:
        call = self.ledger.call_of(dispatch, key, self.now, self.now + 0.5)
        role = "model" if key[0] == "model" else "tool"
        tag = Tag(
            f"x-{next(self._numbers)}",
            call,
            key[0],
            "model",
            role,
            "POST",
            "/v1",
            "http_status",
            self.now,
            self.now + 0.5,
            1,
            "header",
            dispatch,
            500,
        )
        self.ledger.add(tag)

    def good(self, dispatch: str, key: CallKey) -> bool:
        """Whether it has done anything."""
        healed = self.ledger.heal(dispatch, lambda: key, self.now, self.now + 0.5)
        waiting = self.waiting(dispatch)
        self.ledger.outlive(dispatch, key[0], self.now, self.now + 0.5)
        return healed is not None or self.waiting(dispatch) != waiting

    def waiting(self, dispatch: str) -> list[str]:
        book = self.ledger._known(dispatch)
        calls = (call for each in book.unanswered.values() for call in each) if book else ()
        return [call.id for call in calls if call.recovered is None]

    def inherit(self, dispatch: str, key: CallKey) -> None:
        call = CallIds("abcdef", "earlier").new(dispatch, key)
        self.ledger.inherit([Standing(dispatch, call, key[0], "model", self.now, False)], self.now)


@given(st.lists(Step, max_size=40))
def test_a_good_exchange_that_heals_or_outlives_concerns_it(steps: list[tuple[str, str, str, bytes]]) -> None:
    """And of what stands failed no more digests are kept than there are."""
    world = World()
    for step, dispatch, server, digest in steps:
        world.now += 1
        key = (server, "POST", "/v1", digest)
        if step == "begin":
            world.begin(dispatch)
        elif step == "bad":
            world.bad(dispatch, key)
        elif step == "inherit":
            world.inherit(dispatch, key)
        elif step == "close":
            world.ledger.close(dispatch)
        else:
            concerns = world.ledger.concerns(dispatch, server, lambda digest=digest: digest)
            assert concerns or not world.good(dispatch, key)
        standing = {(dispatch, key[-1]) for dispatch, key, _, _ in world.ledger.standing()}
        pages = world.ledger._standing.items()
        assert {(dispatch, body) for dispatch, page in pages for body in page.bodies} == standing


def test_where_nothing_stands_failed_no_digest_is_made() -> None:
    """It is most of what a good call would cost here. What stands failed of another dispatch makes no difference."""
    world = World()
    world.begin("d-1")
    assert not world.ledger.concerns("d-1", "model", lambda: 1 // 0)
    key = ("model", "POST", "/v1", b"one")
    world.bad("d-1", key)
    world.now += 1
    assert not world.ledger.concerns("d-2", "model", lambda: 1 // 0)
    assert not world.ledger.concerns(None, "model", lambda: 1 // 0)
    assert world.good("d-1", key)
    assert not world.ledger.concerns("d-1", "model", lambda: 1 // 0)
