"""The tables of what people are told, and how far each telling has come."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, Table, Text, text

from service.domain.notice import NoticeKind, TellingState
from service.store.columns import JsonList, JsonObject, Plain, UtcTime, Word
from service.store.metadata import metadata, partial_index

# Conditions of partial indexes; a query says the same words (see `tables`).
PENDING = text(f"state = '{TellingState.PENDING.value}'")
GIVEN_UP = text(f"state = '{TellingState.GIVEN_UP.value}'")
GATHERING = text("gathers_until IS NOT NULL")

notices = Table(
    "notices",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Word(NoticeKind), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("key", Plain, nullable=False),
    Column("facts", JsonObject, nullable=False),
    # Empty: none. No foreign key: a notice says what it says, whatever becomes of the run's rows.
    Column("run_id", Text, nullable=False),
    Column("runbook", Plain, nullable=False),
    Column("nodes", JsonList, nullable=False),
    Column("pools", JsonList, nullable=False),
    Column("by_alert", Boolean, nullable=False),
    Column("gathers_until", UtcTime),
    Index(None, "at", "id"),
    partial_index("ix_notices_gathering", GATHERING, "key", "gathers_until"),
)

tellings = Table(
    "tellings",
    metadata,
    Column("id", Text, primary_key=True),
    Column("notice_id", Text, ForeignKey("notices.id"), nullable=False),
    Column("receiver", Plain, nullable=False),
    Column("kind", Word(NoticeKind), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("state", Word(TellingState), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("reason", Plain, nullable=False),
    Index(None, "notice_id"),
    Index(None, "at", "id"),
    Index(None, "state", "at", "id"),
    Index(None, "receiver", "at", "id"),
    Index(None, "kind", "at", "id"),
    partial_index("ix_tellings_pending", PENDING, "receiver", "next_at", "id"),
    partial_index("ix_tellings_given_up", GIVEN_UP, "ended_at", "receiver"),
)

notice_cursors = Table(
    "notice_cursors",
    metadata,
    # Whose place in the audit it is; there is one so far.
    Column("name", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
)
