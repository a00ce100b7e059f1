"""Who has signed in to the pages."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("opened_at", TIME, nullable=False),
        sa.Column("seen_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("sha256", name=op.f("uq_sessions_sha256")),
    )
    op.create_index(op.f("ix_sessions_opened_at"), "sessions", ["opened_at"], unique=False)
    op.create_index(op.f("ix_sessions_seen_at"), "sessions", ["seen_at"], unique=False)
