"""The tables of what monitors send, and of what keeps alerts from starting runs."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text, UniqueConstraint, text

from service.domain.alert import AlertStatus
from service.domain.delivery import AlertVerdict, DeliveryState, HeldBy
from service.store.columns import JsonObject, Packed, Plain, UtcTime, Word
from service.store.metadata import metadata, partial_index

# Conditions of partial indexes; a query says the same words (see `tables`).
HELD = text(f"verdict = '{AlertVerdict.HELD.value}'")
UNJUDGED = text("verdict IS NULL")
WAKES = text("wake_at IS NOT NULL")
FOLDED = text("run_id <> ''")

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("source", Plain, nullable=False),
    Column("received_at", UtcTime, nullable=False),
    Column("state", Word(DeliveryState), nullable=False),
    Column("delivered_by", Plain, nullable=False),
    Column("delivery_key", Plain),
    Column("body", Packed, nullable=False),
    Column("body_bytes", BigInteger, nullable=False),
    Column("omitted", BigInteger, nullable=False),
    Column("ignored", Plain, nullable=False),
    Column("confirm_url", Plain, nullable=False),
    UniqueConstraint("source", "delivery_key"),
    Index(None, "received_at", "id"),
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("delivery_id", Text, ForeignKey("deliveries.id"), nullable=False),
    Column("index", Integer, nullable=False),
    Column("source", Plain, nullable=False),
    Column("delivered_by", Plain, nullable=False),
    Column("received_at", UtcTime, nullable=False),
    Column("fingerprint", Plain, nullable=False),
    Column("status", Word(AlertStatus), nullable=False),
    Column("starts_at", UtcTime, nullable=False),
    Column("ends_at", UtcTime),
    Column("labels", JsonObject, nullable=False),
    Column("annotations", JsonObject, nullable=False),
    Column("link", Plain, nullable=False),
    Column("judged_at", UtcTime),
    Column("verdict", Word(AlertVerdict)),
    Column("rule", Plain, nullable=False),
    Column("node", Plain, nullable=False),
    # Empty: none. No foreign key: the first of two alerts of one fault may be dropped before the run is.
    Column("run_id", Text, nullable=False),
    Column("reason", Plain, nullable=False),
    Column("held_by", Word(HeldBy)),
    Column("wake_at", UtcTime),
    UniqueConstraint("delivery_id", "index"),
    Index(None, "received_at", "id"),
    Index(None, "node", "received_at", "id"),
    Index(None, "verdict", "received_at", "id"),
    Index(None, "source", "received_at", "id"),
    # One occasion of one fault.
    Index(None, "source", "fingerprint", "starts_at"),
    partial_index("ix_alerts_wakes", WAKES, "wake_at", "id"),
    partial_index("ix_alerts_unjudged", UNJUDGED, "received_at"),
    partial_index("ix_alerts_held", HELD, "held_by", "received_at", "id"),
    partial_index("ix_alerts_held_node", HELD, "node", "received_at", "id"),
    partial_index("ix_alerts_folded", FOLDED, "run_id"),
)

breakers = Table(
    "breakers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("latched_at", UtcTime),
    Column("reason", Plain, nullable=False),
    Column("reset_at", UtcTime),
    Column("reset_by", Plain, nullable=False),
    Column("reset_reason", Plain, nullable=False),
)

pauses = Table(
    "pauses",
    metadata,
    # What is paused; there is one word so far.
    Column("name", Text, primary_key=True),
    Column("by", Plain, nullable=False),
    Column("reason", Plain, nullable=False),
    Column("at", UtcTime, nullable=False),
)
