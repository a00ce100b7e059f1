"""The table of browsers that have signed in to the pages."""

from sqlalchemy import Column, ForeignKey, Index, Table, Text, UniqueConstraint

from service.store.columns import UtcTime
from service.store.metadata import metadata

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sha256", Text, nullable=False),
    Column("token_id", Text, ForeignKey("tokens.id"), nullable=False),
    Column("opened_at", UtcTime, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
    UniqueConstraint("sha256"),
    Index(None, "opened_at"),
    Index(None, "seen_at"),
)
