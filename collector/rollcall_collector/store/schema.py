"""The tables. Times are seconds since the epoch; JSON columns hold what only whole is of use."""

from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text

SCHEMA_VERSION = 3

metadata = MetaData()

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
    Column("pid", Integer),
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
    Column("task_index", Integer),
    Column("rollout_index", Integer),
    Column("stage_index", Integer),
    Column("agent", String),
    Column("environment_server", String),
    Column("server", String),  # where its last outermost /run was sent
    Column("state", String, nullable=False),
    Column("dispatch", String),  # the last one, whose verdict is the rollout's
    Column("attempt", Integer, nullable=False, default=0),
    Index("rollouts_state", "run", "state"),
    Index("rollouts_rollout", "run", "rollout"),
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
    Column("attempt", Integer, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("masked", Boolean, nullable=False, default=False),
    Column("unscored", Boolean, nullable=False, default=False),
    Column("empty_output", Boolean, nullable=False, default=False),
    Column("not_inspected", Boolean, nullable=False, default=False),
    Column("model_calls", Integer, nullable=False, default=0),
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
    Column("row", JSON),
    Index("dispatches_rollout", "run", "benchmark", "rollout"),
)

tags = Table(
    "tags",
    metadata,
    Column("exchange", String, primary_key=True),
    Column("dispatch", String),  # null: unattributed
    Column("claimed", String),  # the dispatch that the call named, known or not
    Column("carrier", String, nullable=False, default=""),
    Column("server", String, nullable=False),
    Column("call", String, nullable=False),
    Column("recovered_at", Float),  # when its call was repeated with success
    Column("outlived_at", Float),  # when its server gave a good answer to another call of the dispatch
    Column("ended_at", Float, nullable=False),
    Column("tag", JSON, nullable=False),
    Index("tags_dispatch", "dispatch"),
    Index("tags_claimed", "claimed", sqlite_where=Column("dispatch").is_(None)),
    Index("tags_unattributed", "ended_at", sqlite_where=Column("dispatch").is_(None)),
)

early = Table(  # what was told of a dispatch that another proxy has yet to tell of
    "early",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("dispatch", String, nullable=False),
    Column("event", JSON, nullable=False),
    Index("early_dispatch", "dispatch"),
)

watched = Table(
    "watched",
    metadata,
    Column("run", String, primary_key=True),
    Column("server", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("exchanges", Integer, nullable=False),
    Column("owned", Integer, nullable=False),
    Column("made", Integer, nullable=False),
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
    Column("last", Integer, nullable=False),
)
