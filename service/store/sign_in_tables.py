"""The tables of browsers that have signed in to the pages, and of accounts that persons have signed in with."""

from sqlalchemy import Column, ForeignKey, Index, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from service.store.columns import JsonList, UtcTime
from service.store.metadata import metadata

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sha256", Text, nullable=False),
    # Either a token, or who was vouched for and by whom.
    Column("token_id", Text, ForeignKey("tokens.id")),
    Column("vouched_by", Text),
    Column("issuer", Text),
    Column("subject", Text),
    Column("person", Text),
    Column("groups", JsonList),
    # What the groups could do at the signing in; what they may do now is asked at each request.
    Column("roles", JsonList),
    Column("opened_at", UtcTime, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
    UniqueConstraint("sha256"),
    Index(None, "opened_at"),
    Index(None, "seen_at"),
)

identities = Table(
    "identities",
    metadata,
    Column("issuer", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("person", Text, nullable=False),
    # The name in the form in which persons are compared.
    Column("person_key", Text, nullable=False),
    PrimaryKeyConstraint("issuer", "subject"),
    UniqueConstraint("person_key"),
)
