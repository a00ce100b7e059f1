"""Persons, roles, tokens: who asks, and what he may do."""

import shlex
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
    #: Pause, resume, reset a breaker.
    PAUSE = "pause"


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
    Role.ADMIN: frozenset({Permission.READ, Permission.TOKENS, Permission.PAUSE}),
    Role.SOURCE: frozenset({Permission.DELIVER}),
}


def roles_that_may(permission: Permission) -> tuple[Role, ...]:
    """Return the roles that grant a permission."""
    return tuple(role for role in Role if permission in _GRANTS[role])


def way_to_role(person: str, *roles: Role) -> str:
    """Return how this person comes by one of these roles, in words."""
    named = " or ".join(part for part in (", ".join(roles[:-1]), str(roles[-1])) if part)
    return (
        f"It takes the role {named}. On the service's host: "
        f"unstick token create --name NAME --person {shlex.quote(person)} --role {roles[0]}"
    )


@dataclass(frozen=True)
class Person:
    """Somebody who is known, with the roles of the token that was used."""

    name: str
    roles: frozenset[Role]

    def may(self, permission: Permission) -> bool:
        """Whether one of the roles grants it."""
        return any(permission in _GRANTS[role] for role in self.roles)

    @property
    def with_roles(self) -> str:
        """Return which token was used, such as `ann's token has the role viewer`; for a refusal."""
        if not self.roles:
            return f"{self.name}'s token has no role"
        return f"{self.name}'s token has the role{'' if len(self.roles) == 1 else 's'} {', '.join(sorted(self.roles))}"


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
