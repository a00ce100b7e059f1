"""Persons, roles, tokens: who asks, and what he may do."""

import shlex
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.domain.reach import EVERYTHING, Reach


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
    #: Overrides a gate where policy.yaml allows it, and reads.
    BREAK_GLASS = "break-glass"


class Permission(StrEnum):
    """What a route may ask for."""

    READ = "read"
    REQUEST = "request"
    CANCEL = "cancel"
    RESOLVE = "resolve"
    HOLD = "hold"
    #: Answer a gate that asks to confirm.
    DECIDE = "decide"
    #: Answer a gate that asks for a second person, too.
    APPROVE = "approve"
    #: Let a gate through that nobody has approved.
    OVERRIDE = "override"
    TOKENS = "tokens"
    DELIVER = "deliver"
    #: Pause, resume, reset a breaker.
    PAUSE = "pause"

    @property
    def words(self) -> str:
        """Return it after `may`, in a sentence."""
        match self:
            case Permission.DECIDE | Permission.APPROVE:
                return "answer this gate"
            case Permission.TOKENS:
                return "make or revoke tokens"
            case Permission.DELIVER:
                return "deliver alerts"
            case _:
                return str(self)


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
    Role.APPROVER: frozenset({Permission.READ, Permission.DECIDE, Permission.APPROVE}),
    Role.ADMIN: frozenset({Permission.READ, Permission.TOKENS, Permission.PAUSE}),
    Role.SOURCE: frozenset({Permission.DELIVER}),
    Role.BREAK_GLASS: frozenset({Permission.READ, Permission.OVERRIDE}),
}


def granted(role: Role) -> frozenset[Permission]:
    """Return what a role may do."""
    return _GRANTS[role]


def roles_that_may(permission: Permission) -> tuple[Role, ...]:
    """Return the roles that grant a permission."""
    return tuple(role for role in Role if permission in _GRANTS[role])


@dataclass(frozen=True)
class Person:
    """Somebody who is known, with the roles and the reach of the token that was used.

    Whether he may do something to a runbook on a node is for `rights.may` to say, not for the roles alone.
    """

    name: str
    roles: frozenset[Role]
    #: How far the token goes.
    reach: Reach = EVERYTHING
    #: Groups that the rights of the policy may name.
    groups: frozenset[str] = frozenset()

    def may(self, permission: Permission) -> bool:
        """Whether one of the roles grants it."""
        return any(permission in _GRANTS[role] for role in self.roles)

    @property
    def with_roles(self) -> str:
        """Return what was used to come in, such as `ann's token has the role viewer`; for a refusal."""
        whose, has = (f"{self.name}'s groups", "have") if self.groups else (f"{self.name}'s token", "has")
        if not self.roles:
            return f"{whose} {has} no role"
        return f"{whose} {has} the role{'' if len(self.roles) == 1 else 's'} {', '.join(sorted(self.roles))}"


def way_to_role(person: Person, *roles: Role) -> str:
    """Return how this person comes by one of these roles, in words."""
    named = " or ".join(part for part in (", ".join(roles[:-1]), str(roles[-1])) if part)
    # Who signs in by a provider has his roles from its groups, and a token is the second way.
    by_group = ": by a group that has it in login.yaml, or by a token" if person.groups else ""
    return (
        f"It takes the role {named}{by_group}. On the service's host: "
        f"unstick token create --name NAME --person {shlex.quote(person.name)} --role {roles[0]}"
    )


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
    reach: Reach = EVERYTHING

    @property
    def owner(self) -> Person:
        """Return whose it is, with what it lets him do."""
        return Person(self.person, self.roles, self.reach)

    def valid(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
