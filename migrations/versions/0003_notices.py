"""What people are told, and whether it has reached them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "notices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("runbook", sa.Text(), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("pools", sa.Text(), nullable=False),
        sa.Column("by_alert", sa.Boolean(), nullable=False),
        sa.Column("gathers_until", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
    )
    op.create_index(op.f("ix_notices_at_id"), "notices", ["at", "id"], unique=False)
    op.create_table(
        "tellings",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("notice_id", sa.Text(), nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["notice_id"], ["notices.id"], name=op.f("fk_tellings_notice_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tellings")),
    )
    for columns in (
        ("notice_id",),
        ("at", "id"),
        ("state", "at", "id"),
        ("receiver", "at", "id"),
        ("kind", "at", "id"),
    ):
        op.create_index(op.f(f"ix_tellings_{'_'.join(columns)}"), "tellings", list(columns), unique=False)
    for name, table, columns, condition in (
        ("ix_notices_gathering", "notices", ("key", "gathers_until"), "gathers_until IS NOT NULL"),
        ("ix_tellings_pending", "tellings", ("receiver", "next_at", "id"), "state = 'pending'"),
        ("ix_tellings_given_up", "tellings", ("ended_at", "receiver"), "state = 'given_up'"),
    ):
        where = sa.text(condition)
        op.create_index(name, table, list(columns), unique=False, sqlite_where=where, postgresql_where=where)
    op.create_table(
        "notice_cursors",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_notice_cursors")),
    )
