"""What ran on a node when a gate was opened."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Empty for gates of before, at which nobody looked.
    op.add_column("gates", sa.Column("survey", sa.Text(), nullable=True))
