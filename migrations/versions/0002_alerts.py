"""Deliveries and alerts, and what keeps alerts from starting anything."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("delivered_by", sa.Text(), nullable=False),
        sa.Column("delivery_key", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("body_bytes", sa.BigInteger(), nullable=False),
        sa.Column("omitted", sa.BigInteger(), nullable=False),
        sa.Column("ignored", sa.Text(), nullable=False),
        sa.Column("confirm_url", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("source", "delivery_key", name=op.f("uq_deliveries_source_delivery_key")),
    )
    op.create_index(op.f("ix_deliveries_received_at_id"), "deliveries", ["received_at", "id"], unique=False)
    op.create_table(
        "alerts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("delivered_by", sa.Text(), nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("starts_at", TIME, nullable=False),
        sa.Column("ends_at", TIME, nullable=True),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("annotations", sa.Text(), nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.Column("judged_at", TIME, nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("held_by", sa.Text(), nullable=True),
        sa.Column("wake_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["delivery_id"], ["deliveries.id"], name=op.f("fk_alerts_delivery_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
        sa.UniqueConstraint("delivery_id", "index", name=op.f("uq_alerts_delivery_id_index")),
    )
    for columns in (
        ("received_at", "id"),
        ("node", "received_at", "id"),
        ("verdict", "received_at", "id"),
        ("source", "received_at", "id"),
        ("source", "fingerprint", "starts_at"),
    ):
        op.create_index(op.f(f"ix_alerts_{'_'.join(columns)}"), "alerts", list(columns), unique=False)
    for name, columns, condition in (
        ("ix_alerts_wakes", ("wake_at", "id"), "wake_at IS NOT NULL"),
        ("ix_alerts_unjudged", ("received_at",), "verdict IS NULL"),
        ("ix_alerts_held", ("held_by", "received_at", "id"), "verdict = 'held'"),
        ("ix_alerts_held_node", ("node", "received_at", "id"), "verdict = 'held'"),
        ("ix_alerts_folded", ("run_id",), "run_id <> ''"),
    ):
        where = sa.text(condition)
        op.create_index(name, "alerts", list(columns), unique=False, sqlite_where=where, postgresql_where=where)
    op.create_table(
        "breakers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("latched_at", TIME, nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("reset_at", TIME, nullable=True),
        sa.Column("reset_by", sa.Text(), nullable=False),
        sa.Column("reset_reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_breakers")),
    )
    op.create_table(
        "pauses",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_pauses")),
    )
