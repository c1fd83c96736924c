"""The tables. Times are seconds since the epoch; JSON columns hold what only whole is of use.

Conditions of partial indexes are written out as text: SQLite uses such an index only where a question has the same
words (https://www.sqlite.org/partialindex.html).
"""

from typing import Any

from sqlalchemy import JSON as ANY_JSON
from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, Table, text
from sqlalchemy import Text as AnyText
from sqlalchemy.types import TypeDecorator

SCHEMA_VERSION = 4

REBUILT = "rebuilt"
"""The mode of a session that was taken from a run's files."""

metadata = MetaData()


class Text(TypeDecorator[str]):
    """Text that every database takes: PostgreSQL refuses NUL, which an odd server may put into a name or a path."""

    impl = AnyText
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return value.replace("\0", "\ufffd") if value is not None and "\0" in value else value


String = Text
Json = ANY_JSON
JSON = ANY_JSON(none_as_null=True)

MISPLACED = text("dispatches.misplaced IS TRUE")
"""Dispatches whose row lies in the wrong file."""

FAILED = text("dispatches.state = 'failed'")

RUNNING = text("dispatches.state = 'running'")

SILENT = text("dispatches.state = 'succeeded' AND dispatches.model_calls = 0")
"""Dispatches that ended well without a model call."""


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


_BY_TASK = ("benchmark", "task_index", "rollout_index", "rollout")

schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

runs = Table(
    "runs",
    metadata,
    Column("run", String, primary_key=True),
    Column("output", Text),
    Column("created_at", Float, nullable=False),
    Column("expected_source", Text),  # path of the materialized inputs; null while expected is "so far"
    Column("expected_digest", Text),
    Column("asked_at", Float),  # when a dispatcher last asked for metrics
    Column("accepted_at", Float),  # unattributed failures up to then were accepted
    Column("accepted_reason", Text),
    Column("policy", JSON),  # the one it was judged again under; null: the collector's
    Column("collector_policy", JSON),  # the collector's when its last session began, for who reads the database alone
    Column("pruned_at", Float),  # it is being removed, and is not shown any more
    Column("lost", JSON),  # by benchmark: what a rebuild could not know, and nobody has accepted
)

sessions = Table(
    "sessions",
    metadata,
    Column("session", String, primary_key=True),
    Column("run", String, nullable=False),
    Column("mode", String, nullable=False),
    Column("launch", String),
    Column("gym", String),
    Column("host", String),
    Column("pid", BigInteger),
    Column("attached", Boolean, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("heartbeat_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("counted_as_zero", JSON),  # what Gym counts as zero: {"classes": [...], "missing": bool}
    Column("reverifies", String),  # the run whose rows a `gym eval reverify` judges again
    Index("sessions_run", "run", "started_at"),
    Index("sessions_launch", "launch"),
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("run", String, primary_key=True),
    Column("benchmark", String, primary_key=True),
    Column("rollout", String, primary_key=True),
    Column("task_index", BigInteger),
    Column("rollout_index", BigInteger),
    Column("stage_index", BigInteger),
    Column("agent", String),
    Column("environment_server", String),
    Column("server", String),  # where its last outermost /run was sent
    Column("state", String, nullable=False),
    Column("dispatch", String),  # the last one, whose verdict is the rollout's
    Column("attempt", BigInteger, nullable=False, default=0),
    Column("counted", JSON, nullable=False),  # what it adds to `counts`: name, or name:detail, to number
    Column("cause", String),  # where it has failed: the cause's id, its server, and words to search in
    Column("cause_server", String),
    Column("cause_words", Text),
    Index("rollouts_listed", "run", "state", "benchmark", "task_index", "rollout_index", "rollout"),
    Index("rollouts_rollout", "run", "rollout"),
    Index("rollouts_causes", "run", "cause_server", "cause", *_BY_TASK, **_where("cause IS NOT NULL")),
)

dispatches = Table(
    "dispatches",
    metadata,
    Column("dispatch", String, primary_key=True),
    Column("run", String, nullable=False),
    Column("session", String, nullable=False),
    Column("benchmark", String, nullable=False),
    Column("rollout", String, nullable=False),
    Column("state", String, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("masked", Boolean, nullable=False, default=False),
    Column("unscored", Boolean, nullable=False, default=False),
    Column("empty_output", Boolean, nullable=False, default=False),
    Column("not_inspected", Boolean, nullable=False, default=False),
    Column("model_calls", BigInteger, nullable=False, default=0),
    Column("begun", JSON, nullable=False),
    Column("ended", JSON),
    Column("root_cause", JSON),
    Column("failure_class", String),
    Column("terminal", Boolean, nullable=False, default=False),
    Column("tools_alone", Boolean, nullable=False, default=False),
    Column("pardoned", JSON),  # calls that failed and are no failure, by rule
    Column("response", JSON),  # that of the /verify request, where verification failed
    Column("placed", String),  # the file that holds its row: results, failures, or nowhere
    Column("healed_by", String),  # the session in which it was verified again with success
    Column("misplaced", Boolean, nullable=False, default=False),  # its row lies in the wrong file
    Column("provisional", Boolean, nullable=False, default=False),  # a proxy alone has ruled what it was answered
    Column("row", JSON),
    Index("dispatches_rollout", "run", "benchmark", "rollout"),
    Index("dispatches_misplaced", "run", **_where("misplaced IS TRUE")),
    Index("dispatches_healed", "run", **_where("healed_by IS NOT NULL")),
    Index("dispatches_failed", "run", "ended_at", **_where("state = 'failed'")),
    Index("dispatches_running", "run", "started_at", "session", **_where("state = 'running'")),
    Index("dispatches_silent", "run", "benchmark", **_where("state = 'succeeded' AND model_calls = 0")),
)

counts = Table(  # kept in the transaction of each change, so that no question has to go through the rollouts
    "counts",
    metadata,
    Column("run", String, primary_key=True),
    Column("benchmark", String, primary_key=True),
    Column("name", String, primary_key=True),  # a state, or a fact of the current dispatch
    Column(
        "detail", String, primary_key=True
    ),  # the session of `running`, the class of `class`, the rule of `pardoned`
    Column("number", BigInteger, nullable=False),
)

benchmarks = Table(  # where a benchmark's rollouts are sent, as far as was seen; "" for unknown
    "benchmarks",
    metadata,
    Column("run", String, primary_key=True),
    Column("benchmark", String, primary_key=True),
    Column("agent", String, primary_key=True),
    Column("environment_server", String, primary_key=True),
    Column("server", String, primary_key=True),
)

tags = Table(  # one record for all exchanges of a call that ended badly in one way
    "tags",
    metadata,
    Column("claimed", String, primary_key=True),  # the dispatch that the call named, known or not; "" for none
    Column("call", String, primary_key=True),
    Column("fold", String, primary_key=True),  # in which way it ended badly
    Column("dispatch", String),  # that of `claimed` once it is known; null: unattributed
    Column("exchange", String, nullable=False),  # the first
    Column("last_exchange", String),  # null where there was one only
    Column("count", BigInteger, nullable=False),
    Column("carrier", String, nullable=False, default=""),
    Column("server", String, nullable=False),
    Column("recovered_at", Float),  # when its call was repeated with success
    Column("outlived_at", Float),  # when its server gave a good answer to another call of the dispatch
    Column("ended_at", Float, nullable=False),  # the first
    Column("last_at", Float, nullable=False),
    Column("received_at", Float),  # the last, by the collector's clock
    Column("tag", JSON, nullable=False),  # the first
    Column("last", JSON),  # what the last has of its own; null where there was one only
    Column("blameless", Boolean, nullable=False, default=False),  # withholds nothing where nobody owns it
    Index("tags_ended", "last_at", "server", **_where("dispatch IS NULL")),
    Index("tags_received", "received_at", "server", **_where("dispatch IS NULL")),
)

proxies = Table(  # what each proxy has last reported of itself
    "proxies",
    metadata,
    Column("proxy", String, primary_key=True),
    Column("heard_at", Float, nullable=False),  # by the collector's clock
    Column("spooled", BigInteger, nullable=False),  # batches in its spool
    Column("ended_at", Float),  # it has told all that it knew
    Column("told_at", Float),  # by the collector's clock: what it knew then is stored
)

spans = Table(  # one record for each event of spans, whether its dispatch is known or not
    "spans",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("dispatch", String, nullable=False),
    Column("received_at", Float),  # by the collector's clock
    Column("lost", BigInteger, nullable=False, default=0),  # exchanges that were not kept
    Column("disowned", String),  # a carrier that was shared: what it has named is not this dispatch's
    Column("kept", LargeBinary),  # see `spanning`
    Index("spans_dispatch", "dispatch"),
    Index("spans_received", "received_at"),
)

early = Table(  # what was told of a dispatch that another proxy has yet to tell of
    "early",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("dispatch", String, nullable=False),
    Column("event", JSON, nullable=False),
    Column("received_at", Float),  # by the collector's clock
    Index("early_dispatch", "dispatch"),
)

watched = Table(
    "watched",
    metadata,
    Column("run", String, primary_key=True),
    Column("server", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("exchanges", BigInteger, nullable=False),
    Column("owned", BigInteger, nullable=False),
    Column("made", BigInteger, nullable=False),
)

topology = Table(
    "topology",
    metadata,
    Column("server", String, primary_key=True),
    Column("refers_to", String, primary_key=True),
)

senders = Table(
    "senders",
    metadata,
    Column("sender", String, primary_key=True),
    Column("last", BigInteger, nullable=False),
)

notices = Table(  # what the webhook is told of each run
    "notices",
    metadata,
    Column("run", String, primary_key=True),
    Column("event", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),  # which of its ends
    Column("tries", BigInteger, nullable=False),
    Column("next_at", Float, nullable=False),  # no try before that
    Column("sent_at", Float),
)

notes = Table(  # what befell the database itself
    "notes",
    metadata,
    Column("at", Float, primary_key=True),
    Column("note", Text, nullable=False),
)
