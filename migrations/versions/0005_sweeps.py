"""Dry runs on a schedule."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "sweeps",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("planned_at", TIME, nullable=False),
        sa.Column("next_at", TIME, nullable=False),
        sa.Column("last_run_id", sa.Text(), nullable=True),
        sa.Column("last_at", TIME, nullable=True),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("skipped_at", TIME, nullable=True),
        sa.Column("skipped", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_sweeps")),
    )
    op.create_table(
        "sweep_looks",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("sweep", sa.Text(), nullable=False),
        sa.Column("runbook", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("looked_at", TIME, nullable=False),
        sa.Column("finding", sa.Text(), nullable=False),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("answered_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("node", "sweep", name=op.f("pk_sweep_looks")),
    )
    op.create_table(
        "sweep_findings",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("sweep", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("since", TIME, nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", "sweep", "step", name=op.f("pk_sweep_findings")),
    )
    asleep = sa.text("owner IS NULL AND wake_at IS NULL AND state = 'queued'")
    op.create_index(
        "ix_node_runs_asleep",
        "node_runs",
        ["run_id", "position"],
        unique=False,
        sqlite_where=asleep,
        postgresql_where=asleep,
    )
