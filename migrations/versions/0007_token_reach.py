"""How far a token goes: which runbooks, and the nodes of which pools."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Tokens of before go as far as their roles.
    op.add_column("tokens", sa.Column("runbooks", sa.Text(), server_default="[]", nullable=False))
    op.add_column("tokens", sa.Column("pools", sa.Text(), server_default="[]", nullable=False))
