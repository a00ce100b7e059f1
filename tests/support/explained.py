"""Any person, policy and matter: what is explained of them, what the service decides, and what the pages say it is.

`allowed_by_the_page` is docs/people.md and docs/operations.md written down anew, so that it shares no code with either.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hypothesis import strategies as st

from service import main
from service.app.decide import check_may_answer
from service.app.insist import answer_for, insist
from service.app.override import check_may_override
from service.app.service import Service
from service.domain.errors import Forbidden
from service.domain.person import Permission, Person, Role
from service.domain.policy import Policy
from service.domain.reach import Reach
from service.domain.rights import About, Right
from service.domain.runbook import ApprovalKind
from service.settings import Settings
from service.web.schemas.policy import Explained
from tests.app.alerting import Fixed
from tests.store.made import gate, node_run, run

_NAMES: Final = ("ann", "bob", "cid")
_RUNBOOKS: Final = ("node-facts", "node-care", "abort")
_POOLS: Final = ("h100", "a100", "lab")
#: What a role grants, as docs/operations.md says it.
_GRANTS: Final = {
    Role.VIEWER: "read",
    Role.OPERATOR: "read request cancel resolve hold decide",
    Role.APPROVER: "read decide approve",
    Role.ADMIN: "read tokens pause",
    Role.SOURCE: "deliver",
    Role.BREAK_GLASS: "read override",
}


@dataclass(frozen=True)
class Case:
    """Who wants to do what with what, under which policy."""

    person: Person
    permission: Permission
    about: About
    policy: Policy


def _globs(names: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    bent = st.sampled_from(names).flatmap(
        lambda name: st.sampled_from((name, f"{name[:3]}*", f"?{name[1:]}", f"*{name[-2:]}", "*", name.upper()))
    )
    return st.lists(bent, max_size=2).map(tuple)


_REACHES: Final = st.builds(Reach, _globs(_RUNBOOKS), _globs(_POOLS))
_RIGHTS: Final = st.builds(
    Right,
    st.frozensets(st.sampled_from((*_NAMES, "group:sre", "group:ops", "*")), min_size=1, max_size=3),
    st.frozensets(st.sampled_from(Permission), min_size=1),
    _REACHES,
    st.just("policy.yaml:1"),
)
#: Most of what is drawn is about one node, and most persons have several roles: else next to nothing is allowed.
CASES: Final = st.builds(
    Case,
    st.builds(
        Person,
        st.sampled_from(_NAMES),
        st.frozensets(st.sampled_from(Role), min_size=1),
        st.just(Reach()) | _REACHES,
        st.frozensets(st.sampled_from(("sre", "ops")), max_size=2),
    ),
    st.sampled_from(Permission),
    st.builds(
        About,
        st.sampled_from((*_RUNBOOKS, None)),
        st.frozensets(st.sampled_from(_POOLS)) | st.none(),
        st.just("gpu-01"),
        st.just("run-1"),
        st.frozensets(st.sampled_from(_NAMES), max_size=2),
    ),
    st.builds(Policy, break_glass=st.booleans(), rights=st.none() | st.lists(_RIGHTS, max_size=4).map(tuple)),
)


def allowed_by_the_page(case: Case) -> bool:
    """Whether the pages for people say that somebody may do this."""
    person, permission, about = case.person, case.permission, case.about
    if permission is Permission.APPROVE and person.name in about.requesters:
        return False
    if not any(permission in _GRANTS[role].split() for role in person.roles):
        return False
    if permission is Permission.OVERRIDE and not case.policy.break_glass:
        return False
    if permission in (Permission.READ, Permission.TOKENS, Permission.DELIVER):
        return True
    if not _reaches(person.reach, about):
        return False
    called = {"*", person.name, *(f"group:{group}" for group in person.groups)}
    rights = case.policy.rights
    return rights is None or any(
        called & right.who and permission in right.may and _reaches(right.reach, about) for right in rights
    )


def decisions(service: Service, case: Case) -> dict[str, bool]:
    """Return whether it is allowed: as it is explained, and by each part of the service that decides it."""
    person, permission, about = case.person, case.permission, case.about
    service = replace(service, policy=Fixed(case.policy))
    answer = answer_for(service, person, permission, about=about)
    said = {
        "explained": Explained.of(person.name, permission, about=about, answer=answer).allowed,
        "insisted on": _lets(lambda: insist(service, person, permission, about=about), answer.why),
    }
    if about.runbook is not None and about.pools is not None:
        kind = {Permission.DECIDE: ApprovalKind.CONFIRM, Permission.APPROVE: ApprovalKind.SECOND_PERSON}.get(permission)
        if kind is not None:
            opened, pools = gate(kind=kind, node="gpu-01"), about.pools
            asked = run("run-1", runbook=about.runbook, requesters=tuple(sorted(about.requesters)))
            said["answering"] = _lets(
                lambda: check_may_answer(service, opened, run=asked, pools=pools, person=person), answer.why
            )
        if permission is Permission.OVERRIDE:
            played = node_run("run-1", runbook=about.runbook, attributes={"pools": sorted(about.pools)})
            said["overriding"] = _lets(lambda: check_may_override(service, played, person=person), answer.why)
    return said


def files_alone(folder: Path) -> Service:
    """Return a service without a database: to decide who may do what takes its policy alone."""
    return main.files_service(Settings(config=folder), clock=main.SystemClock())


def _lets(act: Callable[[], None], why: str) -> bool:
    """Whether it is let through; a refusal must say what was explained."""
    told = why
    try:
        act()
    except Forbidden as refusal:
        told = refusal.reason
        refused = True
    else:
        refused = False
    assert told == why
    return not refused


def _reaches(reach: Reach, about: About) -> bool:
    return _named(reach.runbooks, None if about.runbook is None else {about.runbook}) and _named(
        reach.pools, about.pools
    )


def _named(globs: Collection[str], names: Collection[str] | None) -> bool:
    """Whether globs name one of these; None: every name that there could be."""
    if not globs or "*" in globs:
        return True
    patterns = [re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".") for glob in globs]
    return any(re.fullmatch(pattern, name) for pattern in patterns for name in names or ())
