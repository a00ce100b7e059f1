"""The tables of runs, of who may ask for them, and of the record."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from service.domain.run import (
    HOLDING_STATES,
    OPEN_STATES,
    AttemptState,
    GateState,
    NodeRunState,
    ResolveAs,
    TriggerKind,
    Verdict,
)
from service.domain.runbook import ApprovalKind
from service.domain.script import NotStarted, ScriptKind, Stream
from service.store.columns import JsonList, JsonObject, Plain, RecordedTime, Results, UtcTime, Word
from service.store.metadata import metadata, partial_index
from service.store.survey_column import Surveyed


def _among(states: frozenset[NodeRunState]) -> str:
    return "state IN ({})".format(", ".join(f"'{state.value}'" for state in NodeRunState if state in states))


# Conditions of partial indexes. A query that is to use such an index says the same words, with no
# bound values in them: SQLite compares the expressions (sqlite.org/partialindex.html, section 3).
OPEN = text(_among(OPEN_STATES))
UNCLAIMED = text(f"owner IS NULL AND {_among(OPEN_STATES)}")
CLAIMED = text(f"owner IS NOT NULL AND {_among(OPEN_STATES)}")
OPEN_ACTING = text(f"acts AND {_among(OPEN_STATES)}")
HOLDING = text(f"acts AND {_among(HOLDING_STATES)}")


runbook_sources = Table(
    "runbook_sources",
    metadata,
    # Of name, text, prelude and revision: a thousand runs of one runbook keep its text once.
    Column("sha256", Text, primary_key=True),
    Column("name", Plain, nullable=False),
    Column("text", Plain, nullable=False),
    Column("prelude", Plain, nullable=False),
    Column("revision", Plain, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("runbook", Plain, nullable=False),
    Column("digest", Text, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("requested_by", Plain, nullable=False),
    Column("requesters", JsonList, nullable=False),
    Column("trigger_kind", Word(TriggerKind), nullable=False),
    Column("trigger_name", Plain, nullable=False),
    Column("params", JsonObject, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("reason", Plain, nullable=False),
    Column("waived", JsonList, nullable=False),
    Column("retry_of", Text),
    Column("escalated_from", Text),
    Column("from_step", Plain),
    Column("idempotency_key", Plain),
    # What `run_state` says of its node runs, so that a list can ask for it by an index.
    Column("state", Word(NodeRunState), nullable=False),
    # What a list shows of its nodes, without a look at them.
    Column("first_nodes", JsonList, nullable=False),
    Column("more_nodes", Boolean, nullable=False),
    Column("source_sha256", Text, ForeignKey("runbook_sources.sha256"), nullable=False),
    Column("envelope_sha256", Text, nullable=False),
    Column("controllers", JsonObject, nullable=False),
    UniqueConstraint("requested_by", "idempotency_key"),
    Index(None, "created_at", "id"),
    Index(None, "state", "created_at", "id"),
    Index(None, "runbook", "created_at", "id"),
    Index(None, "requested_by", "created_at", "id"),
)

planned_scripts = Table(
    "planned_scripts",
    metadata,
    Column("run_id", Text, ForeignKey("runs.id"), primary_key=True),
    Column("node", Plain, primary_key=True),
    # The scripts of this node as JSON, compressed with zlib.
    Column("scripts", LargeBinary, nullable=False),
)

node_runs = Table(
    "node_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.id"), nullable=False),
    Column("node", Plain, nullable=False),
    Column("state", Word(NodeRunState), nullable=False),
    Column("position", Integer, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("acts", Boolean, nullable=False),
    Column("runbook", Plain, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("verdict", Word(Verdict)),
    Column("reason", Plain, nullable=False),
    Column("wake_at", UtcTime),
    Column("owner", Plain),
    Column("epoch", Integer, nullable=False),
    Column("first_boot_id", Plain),
    Column("cancel_requested_by", Plain),
    Column("cancel_reason", Plain, nullable=False),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("attributes", JsonObject, nullable=False),
    Column("pool", Plain),
    Column("results", Results, nullable=False),
    # A wake that came while somebody had claimed it; `release` minds it, so that it is not lost.
    Column("woken_at", UtcTime),
    # The run's `created_at`: the runs of one node are then a walk along one index.
    Column("run_created_at", UtcTime, nullable=False),
    UniqueConstraint("run_id", "node"),
    Index(None, "node", "run_created_at", "run_id"),
    Index(None, "run_id", "position", "id"),
    partial_index("uq_node_runs_one_acting", HOLDING, "node", unique=True),
    # The state stands last so that what is open is counted without a look at the rows.
    partial_index("ix_node_runs_due", UNCLAIMED, "wake_at", "id", "state"),
    partial_index("ix_node_runs_claimed", CLAIMED, "owner", "state"),
    partial_index("ix_node_runs_open_acting_runbook", OPEN_ACTING, "runbook", "created_at"),
    partial_index("ix_node_runs_open_acting_node", OPEN_ACTING, "node", "created_at"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("node_run_id", Text, ForeignKey("node_runs.id"), nullable=False),
    Column("step", Plain, nullable=False),
    Column("kind", Word(ScriptKind), nullable=False),
    Column("number", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("state", Word(AttemptState), nullable=False),
    Column("intended_at", UtcTime, nullable=False),
    Column("script_sha256", Text, nullable=False),
    Column("acting", Boolean, nullable=False),
    Column("not_after", UtcTime),
    Column("boot_id", Plain),
    Column("targets", JsonList, nullable=False),
    Column("not_started", Word(NotStarted)),
    Column("reason", Plain, nullable=False),
    Column("exit_code", BigInteger),
    Column("signal", BigInteger),
    Column("pid", BigInteger),
    Column("wchan", Plain),
    Column("asked_at", UtcTime),
    Column("answered_at", UtcTime),
    Column("ended_by_us", Boolean, nullable=False),
    Column("started_at", UtcTime),
    Column("finished_at", UtcTime),
    Column("stdout_bytes", BigInteger, nullable=False),
    Column("stderr_bytes", BigInteger, nullable=False),
    Column("output_sha256", Text),
    Column("truncated", Boolean, nullable=False),
    UniqueConstraint("node_run_id", "number"),
)

output_chunks = Table(
    "output_chunks",
    metadata,
    Column("attempt_id", Text, ForeignKey("attempts.id"), primary_key=True),
    Column("stream", Word(Stream), primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    Column("length", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

# Where a sealed output lies. The blob may be gone, by retention; what it was stays known.
outputs = Table(
    "outputs",
    metadata,
    Column("attempt_id", Text, ForeignKey("attempts.id"), primary_key=True),
    Column("blob_sha256", Text, nullable=False),
    # Bytes that are kept: the blob is stdout, then stderr.
    Column("stdout_length", BigInteger, nullable=False),
    Column("stderr_length", BigInteger, nullable=False),
    # How far each stream goes, bytes that were dropped on the node included.
    Column("stdout_end", BigInteger, nullable=False),
    Column("stderr_end", BigInteger, nullable=False),
    Column("sealed_at", UtcTime, nullable=False),
    Index(None, "blob_sha256", "sealed_at"),
    Index(None, "sealed_at"),
)

gates = Table(
    "gates",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.id"), nullable=False),
    Column("node_run_id", Text, ForeignKey("node_runs.id"), nullable=False),
    Column("node", Plain, nullable=False),
    Column("step", Plain, nullable=False),
    Column("round", Integer, nullable=False),
    Column("kind", Word(ApprovalKind), nullable=False),
    Column("state", Word(GateState), nullable=False),
    Column("digest", Text, nullable=False),
    Column("boot_id", Plain, nullable=False),
    Column("targets", JsonList, nullable=False),
    Column("opened_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Column("check_attempt_id", Text, nullable=False),
    Column("decided_by", Plain),
    Column("decided_at", UtcTime),
    Column("reason", Plain, nullable=False),
    Column("survey", Surveyed),
    UniqueConstraint("node_run_id", "step", "round"),
    Index(None, "opened_at", "id"),
    Index(None, "state", "opened_at", "id"),
)

resolutions = Table(
    "resolutions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("node_run_id", Text, ForeignKey("node_runs.id"), nullable=False),
    Column("resolve_as", Word(ResolveAs), nullable=False),
    Column("by", Plain, nullable=False),
    Column("reason", Plain, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("after_number", Integer, nullable=False),
    Index(None, "node_run_id", "at"),
)

holds = Table(
    "holds",
    metadata,
    Column("node", Plain, primary_key=True),
    Column("by", Plain, nullable=False),
    Column("reason", Plain, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("until", UtcTime),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Plain, nullable=False),
    Column("person", Plain, nullable=False),
    Column("roles", JsonList, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Column("last_used_at", UtcTime),
    Column("revoked_at", UtcTime),
    # How far it goes: globs of names; none is all of them.
    Column("runbooks", JsonList, nullable=False, server_default="[]"),
    Column("pools", JsonList, nullable=False, server_default="[]"),
    UniqueConstraint("name"),
    UniqueConstraint("sha256"),
)

# Append-only: triggers, which the migration makes, let nothing but the next event of the chain in.
audit_events = Table(
    "audit_events",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at", RecordedTime, nullable=False),
    Column("action", Text, nullable=False),
    Column("about", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("on_behalf_of", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("step", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("body_sha256", Text, nullable=False),
    Column("previous_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    UniqueConstraint("previous_hash"),
    CheckConstraint("seq > 0", name="seq_positive"),
    Index(None, "at", "seq"),
    Index(None, "run_id", "seq"),
    Index(None, "node", "at", "seq"),
    Index(None, "person", "at", "seq"),
    Index(None, "action", "at", "seq"),
)
