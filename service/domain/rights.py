"""Whether a person may do something, and why: the one place that decides it. What nothing allows is refused."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.domain.person import Permission, Person, roles_that_may, way_to_role
from service.domain.person_name import is_among
from service.domain.reach import EVERYTHING, Reach

#: Who is named by it: everybody whose role may do it.
EVERYBODY: Final = "*"
#: How a group is written among persons.
GROUP: Final = "group:"
#: What a role alone decides. Everything else is narrowed by the token and by the rights of the policy.
BY_ROLE_ALONE: Final = frozenset({Permission.READ, Permission.DELIVER, Permission.TOKENS})
#: Why no gate is overridden where no policy says anything of it.
BREAK_GLASS_OFF: Final = "No gate may be overridden here: the policy does not say `break_glass: true`."
#: More names are not listed.
_MOST_NAMES: Final = 5


@dataclass(frozen=True)
class About:
    """What somebody wants to do something with. None is all of them: a pause is about every runbook and node."""

    runbook: str | None = None
    #: Of the one node that it is about.
    pools: frozenset[str] | None = None
    node: str | None = None
    run_id: str | None = None
    #: Persons who count as having requested the run whose gate is answered.
    requesters: frozenset[str] = frozenset()

    @property
    def words(self) -> str:
        """Return it for a sentence, such as `node-facts on gpu-01 (pools h100)`."""
        runbook = self.runbook or "every runbook"
        if self.pools is None:
            return f"{runbook} on every node"
        pools = f"pools {' '.join(sorted(self.pools))}" if self.pools else "in no pool"
        return f"{runbook} on {self.node or 'a node'} ({pools})"


#: What is about every runbook and every node.
EVERY_NODE: Final = About()


@dataclass(frozen=True)
class Right:
    """One entry of `rights:` in the policy: who may do what, with which runbooks, on the nodes of which pools."""

    #: Names of persons, `group:NAME`, or `*`.
    who: frozenset[str]
    may: frozenset[Permission]
    reach: Reach = EVERYTHING
    #: Where it is written, such as `config/policy.yaml:12`.
    place: str = ""

    def names(self, person: Person) -> bool:
        """Whether it is for this person, by his name or by a group of his."""
        groups = {f"{GROUP}{group}" for group in person.groups}
        return bool(self.who & ({EVERYBODY, person.name} | groups))

    def gives(self, permission: Permission, about: About) -> bool:
        """Whether it lets whom it names do this."""
        return permission in self.may and self.reach.covers(about.runbook, about.pools)


#: None: the policy says nothing of rights, so the roles of tokens decide alone.
Rights = Sequence[Right] | None


class By(StrEnum):
    """What narrows what a person may do, in the order in which it is asked."""

    REQUESTER = "requester"
    ROLE = "role"
    #: The switch of the policy for overriding.
    BREAK_GLASS = "break-glass"
    REACH = "reach"
    RIGHTS = "rights"


@dataclass(frozen=True)
class Look:
    """What one of them says."""

    by: By
    allows: bool
    #: One sentence.
    why: str
    #: What helps, where it refuses.
    way_out: str = ""


@dataclass(frozen=True)
class Answer:
    """Whether somebody may, with everything that was asked."""

    looks: tuple[Look, ...]

    @property
    def decided_by(self) -> Look:
        """Return what decides: the first that refuses, else the narrowest that allows."""
        return next((look for look in self.looks if not look.allows), self.looks[-1])

    @property
    def allowed(self) -> bool:
        """Whether nothing refuses."""
        return self.decided_by.allows

    @property
    def why(self) -> str:
        """Return why, in one sentence."""
        return self.decided_by.why

    @property
    def way_out(self) -> str:
        """Return what helps; empty when it is allowed."""
        return self.decided_by.way_out


def may(
    person: Person, permission: Permission, *, about: About, rights: Rights, break_glass_off: str = BREAK_GLASS_OFF
) -> Answer:
    """Return whether this person may do this, under these rights; `break_glass_off` says why nobody may override.

    The roles of the token are the most that anybody may. The reach of the token narrows them, and so do the rights of
    the policy; neither ever adds anything. Nobody answers a gate for a second person at a run that he requested.
    """
    looks = [*_requester(person, permission, about=about), _role(person, permission)]
    if permission is Permission.OVERRIDE:
        looks.append(_break_glass(break_glass_off))
    if permission not in BY_ROLE_ALONE:
        looks += [_reach(person, about=about), _rights(person, permission, about=about, rights=rights)]
    return Answer(tuple(looks))


def _requester(person: Person, permission: Permission, *, about: About) -> Iterator[Look]:
    # It is asked first: another role would not help him.
    if permission is not Permission.APPROVE:
        return
    if is_among(person.name, about.requesters):
        withdraw = f"; to withdraw the run: unstick cancel {about.run_id}" if about.run_id else ""
        yield Look(
            By.REQUESTER,
            False,
            f"{person.name} requested this run and may not answer its gate.",
            f"It needs an approver who did not request it{withdraw}",
        )
    else:
        yield Look(
            By.REQUESTER, True, f"{person.name} may answer for a second person where he did not request the run."
        )


def _role(person: Person, permission: Permission) -> Look:
    if person.may(permission):
        return Look(By.ROLE, True, f"{person.with_roles}, which may {permission.words}.")
    way_out = way_to_role(person, *roles_that_may(permission))
    return Look(By.ROLE, False, f"{person.with_roles}, which may not {permission.words}.", way_out)


def _break_glass(off: str) -> Look:
    if not off:
        return Look(By.BREAK_GLASS, True, "The policy says `break_glass: true`.")
    way_out = "Ask somebody who may approve it; to allow it is a reviewed change of policy.yaml."
    return Look(By.BREAK_GLASS, False, off, way_out)


def _reach(person: Person, *, about: About) -> Look:
    reach = person.reach
    if reach.covers(about.runbook, about.pools):
        whose = f"{person.name}'s groups are" if person.groups else f"{person.name}'s token is"
        return Look(By.REACH, True, f"{whose} for {reach.words}.")
    return Look(
        By.REACH,
        False,
        f"{person.name}'s token is for {reach.words} alone, and this is about {about.words}.",
        "It takes a token that reaches so far: unstick token create, with other --runbook and --pool, or without.",
    )


def _rights(person: Person, permission: Permission, *, about: About, rights: Rights) -> Look:
    if rights is None:
        return Look(By.RIGHTS, True, "The policy has no `rights`, so the roles of tokens decide alone.")
    giving = [right for right in rights if right.gives(permission, about)]
    for right in giving:
        if right.names(person):
            return Look(By.RIGHTS, True, f"{right.place} lets {person.name} {permission.words}: {about.words}.")
    others = sorted({name for right in giving for name in right.who})
    who = f"It lets {_some(others)}." if others else "It lets nobody."
    return Look(
        By.RIGHTS,
        False,
        f"No entry of `rights` in the policy lets {person.name} {permission.words}: {about.words}.",
        f"{who} Another entry is a reviewed change of policy.yaml.",
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"
