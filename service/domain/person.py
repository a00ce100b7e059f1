"""Persons, roles, tokens: who asks, and what he may do."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """What a token may be used for."""

    #: Reads.
    VIEWER = "viewer"
    #: Requests, cancels, retries, holds, resolves, answers `confirm`.
    OPERATOR = "operator"
    #: Answers both kinds of gate.
    APPROVER = "approver"
    #: Has tokens, pause and breakers, and no gate.
    ADMIN = "admin"
    #: Delivers alerts, nothing else.
    SOURCE = "source"


class Permission(StrEnum):
    """What a route may ask for."""

    READ = "read"
    REQUEST = "request"
    CANCEL = "cancel"
    RESOLVE = "resolve"
    HOLD = "hold"
    DECIDE = "decide"
    TOKENS = "tokens"
    DELIVER = "deliver"


_GRANTS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.OPERATOR: frozenset(
        {
            Permission.READ,
            Permission.REQUEST,
            Permission.CANCEL,
            Permission.RESOLVE,
            Permission.HOLD,
            Permission.DECIDE,
        }
    ),
    Role.APPROVER: frozenset({Permission.READ, Permission.DECIDE}),
    Role.ADMIN: frozenset({Permission.READ, Permission.TOKENS}),
    Role.SOURCE: frozenset({Permission.DELIVER}),
}


@dataclass(frozen=True)
class Person:
    """Somebody who is known, with the roles of the token that was used."""

    name: str
    roles: frozenset[Role]

    def may(self, permission: Permission) -> bool:
        """Whether one of the roles grants it."""
        return any(permission in _GRANTS[role] for role in self.roles)


@dataclass(frozen=True)
class Token:
    """An API token of a person; the token itself is never stored, only its SHA-256."""

    id: str
    name: str
    person: str
    roles: frozenset[Role]
    sha256: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def valid(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
