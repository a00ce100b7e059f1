"""The first tables, and the triggers that keep the audit append-only."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SEQ = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")

FIRST_HASH = "0" * 64

# INSERT OR REPLACE removes the old row without a delete trigger while recursive_triggers is off, which is
# SQLite's default; so nothing may be inserted but the next event of the chain.
SQLITE_TRIGGERS = (
    f"""CREATE TRIGGER audit_events_next BEFORE INSERT ON audit_events
    WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM audit_events)
    OR NEW.previous_hash IS NOT coalesce((SELECT hash FROM audit_events ORDER BY seq DESC LIMIT 1), '{FIRST_HASH}')
    BEGIN SELECT RAISE(ABORT, 'audit_events takes only the next event of its chain'); END""",
    """CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events
    BEGIN SELECT RAISE(ABORT, 'audit_events is append-only'); END""",
    """CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events
    BEGIN SELECT RAISE(ABORT, 'audit_events is append-only'); END""",
)

# ENABLE ALWAYS: ordinary triggers do not fire while session_replication_role is replica.
POSTGRES_TRIGGERS = (
    """CREATE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'audit_events is append-only' USING ERRCODE = 'restrict_violation'; END $$""",
    f"""CREATE FUNCTION audit_events_next() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE head record;
    BEGIN
        SELECT seq, hash INTO head FROM audit_events ORDER BY seq DESC LIMIT 1;
        IF NEW.seq IS DISTINCT FROM coalesce(head.seq, 0) + 1
            OR NEW.previous_hash IS DISTINCT FROM coalesce(head.hash, '{FIRST_HASH}') THEN
            RAISE EXCEPTION 'audit_events takes only the next event of its chain' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END $$""",
    """CREATE TRIGGER audit_events_next BEFORE INSERT ON audit_events
    FOR EACH ROW EXECUTE FUNCTION audit_events_next()""",
    """CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION audit_events_append_only()""",
    "ALTER TABLE audit_events ENABLE ALWAYS TRIGGER audit_events_next",
    "ALTER TABLE audit_events ENABLE ALWAYS TRIGGER audit_events_append_only",
)


def upgrade() -> None:
    """Make the tables, then the triggers."""
    op.create_table(
        "audit_events",
        sa.Column("seq", SEQ, autoincrement=False, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("on_behalf_of", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("body_sha256", sa.Text(), nullable=False),
        sa.Column("previous_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.CheckConstraint("seq > 0", name=op.f("ck_audit_events_seq_positive")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit_events")),
        sa.UniqueConstraint("previous_hash", name=op.f("uq_audit_events_previous_hash")),
    )
    op.create_index(op.f("ix_audit_events_action_at_seq"), "audit_events", ["action", "at", "seq"], unique=False)
    op.create_index(op.f("ix_audit_events_at_seq"), "audit_events", ["at", "seq"], unique=False)
    op.create_index(op.f("ix_audit_events_node_at_seq"), "audit_events", ["node", "at", "seq"], unique=False)
    op.create_index(op.f("ix_audit_events_person_at_seq"), "audit_events", ["person", "at", "seq"], unique=False)
    op.create_index(op.f("ix_audit_events_run_id_seq"), "audit_events", ["run_id", "seq"], unique=False)
    op.create_table(
        "blobs",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_blobs")),
    )
    op.create_table(
        "holds",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("until", TIME, nullable=True),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_holds")),
    )
    op.create_table(
        "runbook_sources",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("prelude", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_runbook_sources")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("roles", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=True),
        sa.Column("last_used_at", TIME, nullable=True),
        sa.Column("revoked_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("name", name=op.f("uq_tokens_name")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("runbook", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("requesters", sa.Text(), nullable=False),
        sa.Column("trigger_kind", sa.Text(), nullable=False),
        sa.Column("trigger_name", sa.Text(), nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("waived", sa.Text(), nullable=False),
        sa.Column("retry_of", sa.Text(), nullable=True),
        sa.Column("escalated_from", sa.Text(), nullable=True),
        sa.Column("from_step", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("first_nodes", sa.Text(), nullable=False),
        sa.Column("more_nodes", sa.Boolean(), nullable=False),
        sa.Column("source_sha256", sa.Text(), nullable=False),
        sa.Column("envelope_sha256", sa.Text(), nullable=False),
        sa.Column("controllers", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["source_sha256"], ["runbook_sources.sha256"], name=op.f("fk_runs_source_sha256")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("requested_by", "idempotency_key", name=op.f("uq_runs_requested_by_idempotency_key")),
    )
    op.create_index(op.f("ix_runs_created_at_id"), "runs", ["created_at", "id"], unique=False)
    op.create_index(
        op.f("ix_runs_requested_by_created_at_id"), "runs", ["requested_by", "created_at", "id"], unique=False
    )
    op.create_index(op.f("ix_runs_runbook_created_at_id"), "runs", ["runbook", "created_at", "id"], unique=False)
    op.create_index(op.f("ix_runs_state_created_at_id"), "runs", ["state", "created_at", "id"], unique=False)
    op.create_table(
        "node_runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("acts", sa.Boolean(), nullable=False),
        sa.Column("runbook", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("wake_at", TIME, nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("first_boot_id", sa.Text(), nullable=True),
        sa.Column("cancel_requested_by", sa.Text(), nullable=True),
        sa.Column("cancel_reason", sa.Text(), nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("attributes", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=True),
        sa.Column("results", sa.Text(), nullable=False),
        sa.Column("woken_at", TIME, nullable=True),
        sa.Column("run_created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_node_runs_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node_runs")),
        sa.UniqueConstraint("run_id", "node", name=op.f("uq_node_runs_run_id_node")),
    )
    op.create_index(
        "ix_node_runs_claimed",
        "node_runs",
        ["owner", "state"],
        unique=False,
        sqlite_where=sa.text("owner IS NOT NULL AND state IN ('queued', 'running', 'waiting', 'stuck')"),
        postgresql_where=sa.text("owner IS NOT NULL AND state IN ('queued', 'running', 'waiting', 'stuck')"),
    )
    op.create_index(
        "ix_node_runs_due",
        "node_runs",
        ["wake_at", "id", "state"],
        unique=False,
        sqlite_where=sa.text("owner IS NULL AND state IN ('queued', 'running', 'waiting', 'stuck')"),
        postgresql_where=sa.text("owner IS NULL AND state IN ('queued', 'running', 'waiting', 'stuck')"),
    )
    op.create_index(
        op.f("ix_node_runs_node_run_created_at_run_id"), "node_runs", ["node", "run_created_at", "run_id"], unique=False
    )
    op.create_index(
        "ix_node_runs_open_acting_node",
        "node_runs",
        ["node", "created_at"],
        unique=False,
        sqlite_where=sa.text("acts AND state IN ('queued', 'running', 'waiting', 'stuck')"),
        postgresql_where=sa.text("acts AND state IN ('queued', 'running', 'waiting', 'stuck')"),
    )
    op.create_index(
        "ix_node_runs_open_acting_runbook",
        "node_runs",
        ["runbook", "created_at"],
        unique=False,
        sqlite_where=sa.text("acts AND state IN ('queued', 'running', 'waiting', 'stuck')"),
        postgresql_where=sa.text("acts AND state IN ('queued', 'running', 'waiting', 'stuck')"),
    )
    op.create_index(op.f("ix_node_runs_run_id_position_id"), "node_runs", ["run_id", "position", "id"], unique=False)
    op.create_index(
        "uq_node_runs_one_acting",
        "node_runs",
        ["node"],
        unique=True,
        sqlite_where=sa.text("acts AND state IN ('running', 'waiting', 'stuck')"),
        postgresql_where=sa.text("acts AND state IN ('running', 'waiting', 'stuck')"),
    )
    op.create_table(
        "planned_scripts",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("scripts", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_planned_scripts_run_id")),
        sa.PrimaryKeyConstraint("run_id", "node", name=op.f("pk_planned_scripts")),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("node_run_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("intended_at", TIME, nullable=False),
        sa.Column("script_sha256", sa.Text(), nullable=False),
        sa.Column("acting", sa.Boolean(), nullable=False),
        sa.Column("not_after", TIME, nullable=True),
        sa.Column("boot_id", sa.Text(), nullable=True),
        sa.Column("targets", sa.Text(), nullable=False),
        sa.Column("not_started", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("signal", sa.BigInteger(), nullable=True),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("wchan", sa.Text(), nullable=True),
        sa.Column("asked_at", TIME, nullable=True),
        sa.Column("answered_at", TIME, nullable=True),
        sa.Column("ended_by_us", sa.Boolean(), nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("stdout_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stderr_bytes", sa.BigInteger(), nullable=False),
        sa.Column("output_sha256", sa.Text(), nullable=True),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["node_run_id"], ["node_runs.id"], name=op.f("fk_attempts_node_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("node_run_id", "number", name=op.f("uq_attempts_node_run_id_number")),
    )
    op.create_table(
        "gates",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("node_run_id", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("targets", sa.Text(), nullable=False),
        sa.Column("opened_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("check_attempt_id", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", TIME, nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["node_run_id"], ["node_runs.id"], name=op.f("fk_gates_node_run_id")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_gates_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gates")),
        sa.UniqueConstraint("node_run_id", "step", "round", name=op.f("uq_gates_node_run_id_step_round")),
    )
    op.create_index(op.f("ix_gates_opened_at_id"), "gates", ["opened_at", "id"], unique=False)
    op.create_index(op.f("ix_gates_state_opened_at_id"), "gates", ["state", "opened_at", "id"], unique=False)
    op.create_table(
        "resolutions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("node_run_id", sa.Text(), nullable=False),
        sa.Column("resolve_as", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("after_number", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["node_run_id"], ["node_runs.id"], name=op.f("fk_resolutions_node_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resolutions")),
    )
    op.create_index(op.f("ix_resolutions_node_run_id_at"), "resolutions", ["node_run_id", "at"], unique=False)
    op.create_table(
        "output_chunks",
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_output_chunks_attempt_id")),
        sa.PrimaryKeyConstraint("attempt_id", "stream", "offset", name=op.f("pk_output_chunks")),
    )
    op.create_table(
        "outputs",
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("blob_sha256", sa.Text(), nullable=False),
        sa.Column("stdout_length", sa.BigInteger(), nullable=False),
        sa.Column("stderr_length", sa.BigInteger(), nullable=False),
        sa.Column("stdout_end", sa.BigInteger(), nullable=False),
        sa.Column("stderr_end", sa.BigInteger(), nullable=False),
        sa.Column("sealed_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_outputs_attempt_id")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_outputs")),
    )
    op.create_index(op.f("ix_outputs_blob_sha256_sealed_at"), "outputs", ["blob_sha256", "sealed_at"], unique=False)
    op.create_index(op.f("ix_outputs_sealed_at"), "outputs", ["sealed_at"], unique=False)

    triggers = SQLITE_TRIGGERS if op.get_bind().dialect.name == "sqlite" else POSTGRES_TRIGGERS
    for statement in triggers:
        op.get_bind().exec_driver_sql(statement)
