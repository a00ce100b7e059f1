"""The chain in the database: events are appended at commit, and read back in bounded memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, insert, select, text

from service.domain.audit import FIRST_HASH, AuditEvent, Fact, append, canonical
from service.domain.errors import BrokenRule
from service.store import locks, rows
from service.store.columns import storable
from service.store.tables import audit_events

_HEAD = select(audit_events.c.seq, audit_events.c.hash).order_by(audit_events.c.seq.desc()).limit(1)
_LOCK = text("SELECT pg_advisory_xact_lock(:space, :chain)")
_PIECE = 1000


def checked(fact: Fact) -> Fact:
    """Return a fact that can be stored and hashed as it is; BrokenRule when its body is not JSON."""
    try:
        body = canonical(fact.body)
        body.encode()
    except UnicodeEncodeError:
        return checked(replace(fact, body=storable_json(fact.body)))
    except (TypeError, ValueError) as error:
        raise BrokenRule(f"The body of {fact.action} is not JSON: {error}.") from error
    return Fact(body=fact.body, **{name: storable(getattr(fact, name)) for name in rows.FACT_WORDS})


def extend_chain(connection: Connection, facts: Sequence[Fact], *, at: datetime) -> None:
    """Append facts to the chain, as the last act of a transaction.

    On PostgreSQL the lock is taken first and the head read afterwards: two services never
    continue the same event, and nobody waits for the chain while he still wants other rows.
    SQLite's transaction has the whole file to itself from its beginning.
    """
    if not facts:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"space": locks.SPACE, "chain": locks.CHAIN})
    head = connection.execute(_HEAD).first()
    seq, previous = (0, FIRST_HASH) if head is None else (head.seq, head.hash)
    events = []
    for fact in facts:
        event = append(fact, seq=seq + 1, at=at, previous_hash=previous)
        seq, previous = event.seq, event.hash
        events.append(rows.event_row(event))
    connection.execute(insert(audit_events), events)


def events(engine: Engine) -> Iterator[AuditEvent]:
    """Yield the chain as far as it went at the beginning, in pieces: no reader holds the database for long."""
    with engine.connect() as connection:
        head = connection.execute(_HEAD).first()
    last, seq = (0 if head is None else head.seq), None
    while seq is None or seq < last:
        c = audit_events.c
        query = select(audit_events).where(c.seq <= last).order_by(c.seq).limit(_PIECE)
        with engine.connect() as connection:
            piece = connection.execute(query if seq is None else query.where(c.seq > seq)).mappings().all()
        if not piece:
            return
        for row in piece:
            yield rows.event_of(row)
        seq = piece[-1]["seq"]


def storable_json(value: Any) -> Any:
    """Return a value of JSON with every text in it as both databases keep it."""
    match value:
        case str():
            return storable(value)
        case Mapping():
            return {storable(str(name)): storable_json(inner) for name, inner in value.items()}
        case list() | tuple():
            return [storable_json(inner) for inner in value]
        case _:
            return value
