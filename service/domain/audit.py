"""The audit chain: facts that are appended, numbered without a gap, each bound to the one before."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from service.domain.script import sha256

FIRST_HASH = "0" * 64
_VERSION = "unstick-audit-1"


@dataclass(frozen=True)
class Fact:
    """What somebody did, before it has its place in the chain."""

    #: A verb and an object, such as `gate.approved` or `attempt.intended`.
    action: str
    #: What it was done to: `gate/ID`, `node/NAME`.
    about: str
    #: The person, or `unstick` where the service acts by itself.
    person: str
    on_behalf_of: str = ""
    run_id: str = ""
    node: str = ""
    step: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditEvent:
    """One fact in its place in the chain."""

    seq: int
    at: datetime
    fact: Fact
    #: The canonical JSON of `fact.body`, as it was hashed.
    body: str
    body_sha256: str
    previous_hash: str
    hash: str


@dataclass(frozen=True)
class ChainFault:
    """The first place at which the chain does not hold."""

    seq: int
    reason: str


def canonical(body: Mapping[str, Any]) -> str:
    """Return a body as JSON that is the same for the same content."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def append(fact: Fact, *, seq: int, at: datetime, previous_hash: str) -> AuditEvent:
    """Return the fact as the event that follows the one with `previous_hash`."""
    body = canonical(fact.body)
    body_sha256 = sha256(body)
    digest = _event_hash(fact, seq=seq, at=at, body_sha256=body_sha256, previous_hash=previous_hash)
    return AuditEvent(seq, at, fact, body, body_sha256, previous_hash, digest)


def first_fault(events: Iterable[AuditEvent]) -> ChainFault | None:
    """Return the first fault of a chain that begins with seq 1, or None when it holds."""
    expected, previous = 1, FIRST_HASH
    for event in events:
        if event.seq != expected:
            return ChainFault(expected, f"seq {expected} is missing; the next one there is {event.seq}")
        if event.previous_hash != previous:
            return ChainFault(event.seq, "its previous hash is not the hash of the event before it")
        if sha256(event.body) != event.body_sha256:
            return ChainFault(event.seq, "its body was changed")
        wanted = _event_hash(
            event.fact, seq=event.seq, at=event.at, body_sha256=event.body_sha256, previous_hash=previous
        )
        if wanted != event.hash:
            return ChainFault(event.seq, "its hash does not fit its content")
        expected, previous = expected + 1, event.hash
    return None


def _event_hash(fact: Fact, *, seq: int, at: datetime, body_sha256: str, previous_hash: str) -> str:
    parts = [
        _VERSION,
        previous_hash,
        seq,
        at.astimezone(UTC).isoformat(timespec="microseconds"),
        fact.action,
        fact.about,
        fact.person,
        fact.on_behalf_of,
        fact.run_id,
        fact.node,
        fact.step,
        body_sha256,
    ]
    return sha256(json.dumps(parts, separators=(",", ":"), ensure_ascii=False))
