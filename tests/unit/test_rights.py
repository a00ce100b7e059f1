"""Who may do what: roles are the most, and the token, the rights and the request itself only narrow them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.person import Permission, Person, Role, granted
from service.domain.reach import EVERYTHING, Reach
from service.domain.rights import BREAK_GLASS_OFF, BY_ROLE_ALONE, About, By, Right, may

ABOUT = About("node-facts", frozenset({"h100", "lab"}), "gpu-01", "run-1")
ANN = Person("ann", frozenset({Role.OPERATOR, Role.APPROVER}))


def ann(*roles: Role, reach: Reach = EVERYTHING, groups: frozenset[str] = frozenset()) -> Person:
    return Person("ann", frozenset(roles), reach, groups)


def right(
    *who: str, may: frozenset[Permission] = frozenset(Permission), reach: Reach = EVERYTHING, place: str = "p:1"
) -> Right:
    return Right(frozenset(who), may, reach, place)


@pytest.mark.parametrize(
    ("reach", "covered"),
    [
        (EVERYTHING, True),
        (Reach(("node-*",)), True),
        (Reach(("node-fact?",), ("h*",)), True),
        (Reach(("*",), ("*",)), True),
        (Reach(("other", "node-facts"), ("other", "lab")), True),
        (Reach(("other",)), False),
        (Reach((), ("other",)), False),
        (Reach(("node-*",), ("H100",)), False),
        (Reach(("node",)), False),
    ],
)
def test_a_reach_covers_what_one_of_its_globs_names(reach: Reach, covered: bool) -> None:
    assert reach.covers("node-facts", ("h100", "lab")) is covered


@pytest.mark.parametrize(
    ("reach", "covered"), [(EVERYTHING, True), (Reach(("*",), ("*",)), True), (Reach(("a*",)), False)]
)
def test_what_is_about_everything_is_covered_by_what_is_for_everything(reach: Reach, covered: bool) -> None:
    assert reach.covers(None, None) is covered


def test_a_node_in_no_pool_is_reached_by_no_reach_that_names_pools() -> None:
    assert (Reach((), ("lab",)).covers("a", ()), Reach((), ("*",)).covers("a", ())) == (False, True)


ROLES_THAT_MAY = {
    Permission.READ: {Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN},
    Permission.REQUEST: {Role.OPERATOR},
    Permission.CANCEL: {Role.OPERATOR},
    Permission.RESOLVE: {Role.OPERATOR},
    Permission.HOLD: {Role.OPERATOR},
    Permission.DECIDE: {Role.OPERATOR, Role.APPROVER},
    Permission.APPROVE: {Role.APPROVER},
    Permission.TOKENS: {Role.ADMIN},
    Permission.DELIVER: {Role.SOURCE},
    Permission.PAUSE: {Role.ADMIN},
}


@pytest.mark.parametrize("permission", ROLES_THAT_MAY)
def test_without_rights_the_roles_decide_alone(permission: Permission) -> None:
    roles = (Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN, Role.SOURCE)

    allowed = {role for role in roles if may(ann(role), permission, about=ABOUT, rights=None).allowed}

    assert allowed == ROLES_THAT_MAY[permission]


def test_an_admin_answers_no_gate_whatever_the_rights_say() -> None:
    answers = [
        may(ann(Role.ADMIN), one, about=ABOUT, rights=[right("ann")]) for one in (Permission.DECIDE, Permission.APPROVE)
    ]

    assert [(one.allowed, one.decided_by.by) for one in answers] == [(False, By.ROLE)] * 2


@pytest.mark.parametrize("permission", [one for one in Permission if one not in BY_ROLE_ALONE])
def test_with_rights_what_no_entry_allows_is_refused(permission: Permission) -> None:
    everybody = ann(*Role)

    assert not may(everybody, permission, about=ABOUT, rights=[], break_glass_off="").allowed


@pytest.mark.parametrize(
    ("off", "allowed", "why"),
    [
        ("", True, "The policy has no `rights`, so the roles of tokens decide alone."),
        (BREAK_GLASS_OFF, False, "No gate may be overridden here: the policy does not say `break_glass: true`."),
        ("policy.yaml is gone.", False, "policy.yaml is gone."),
    ],
)
def test_overriding_takes_the_switch_of_the_policy_whatever_roles_and_rights_say(
    off: str, allowed: bool, why: str
) -> None:
    breaker = ann(Role.BREAK_GLASS)

    answer = may(breaker, Permission.OVERRIDE, about=ABOUT, rights=None, break_glass_off=off)
    with_a_right = may(breaker, Permission.OVERRIDE, about=ABOUT, rights=[right("ann")], break_glass_off=off)

    assert (answer.allowed, answer.why, with_a_right.allowed) == (allowed, why, allowed)
    assert [look.by for look in answer.looks] == [By.ROLE, By.BREAK_GLASS, By.REACH, By.RIGHTS]
    assert not may(breaker, Permission.OVERRIDE, about=ABOUT, rights=None).allowed


@pytest.mark.parametrize("permission", sorted(BY_ROLE_ALONE))
def test_reading_stays_with_the_role(permission: Permission) -> None:
    narrow = ann(*Role, reach=Reach(("other",), ("other",)))

    assert may(narrow, permission, about=ABOUT, rights=[]).allowed


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        (right("ann"), True),
        (right("*"), True),
        (right("group:sre"), True),
        (right("ann", reach=Reach(("node-*",), ("h100",))), True),
        (right("bob"), False),
        (right("group:other"), False),
        (right("sre"), False),
        (right("ann", may=frozenset({Permission.DECIDE})), False),
        (right("ann", reach=Reach(("other",))), False),
        (right("ann", reach=Reach((), ("other",))), False),
    ],
)
def test_an_entry_lets_whom_it_names_do_what_it_says_where_it_reaches(entry: Right, allowed: bool) -> None:
    person = ann(Role.OPERATOR, groups=frozenset({"sre"}))

    assert may(person, Permission.REQUEST, about=ABOUT, rights=[entry]).allowed is allowed


def test_a_group_cannot_be_taken_by_a_name() -> None:
    named = Person("sre", frozenset({Role.OPERATOR}))

    assert not may(named, Permission.REQUEST, about=ABOUT, rights=[right("group:sre")]).allowed


def test_who_requested_a_run_does_not_answer_for_a_second_person_whatever_else_he_has() -> None:
    about = About("a", frozenset(), "n", "run-1", frozenset({"ann", "bob"}))

    answer = may(ann(*Role), Permission.APPROVE, about=about, rights=[right("*")])

    assert (answer.allowed, answer.why, answer.way_out) == (
        False,
        "ann requested this run and may not answer its gate.",
        "It needs an approver who did not request it; to withdraw the run: unstick cancel run-1",
    )


def test_a_refusal_says_what_is_missing_and_who_could() -> None:
    rights = [right("bob", "group:sre"), right("ann", reach=Reach(("other",)))]

    answer = may(ann(Role.OPERATOR), Permission.REQUEST, about=ABOUT, rights=rights)

    assert (answer.why, answer.way_out) == (
        "No entry of `rights` in the policy lets ann request: node-facts on gpu-01 (pools h100 lab).",
        "It lets bob, group:sre. Another entry is a reviewed change of policy.yaml.",
    )


def test_who_has_his_roles_from_groups_is_told_of_both_ways_to_another() -> None:
    answer = may(ann(Role.VIEWER, groups=frozenset({"all"})), Permission.HOLD, about=ABOUT, rights=None)

    assert answer.why == "ann's groups have the role viewer, which may not hold."
    assert answer.way_out == (
        "It takes the role operator: by a group that has it in login.yaml, or by a token. On the service's host: "
        "unstick token create --name NAME --person ann --role operator"
    )


def test_a_token_that_does_not_reach_so_far_says_how_far_it_goes() -> None:
    answer = may(ann(Role.OPERATOR, reach=Reach((), ("t*",))), Permission.HOLD, about=ABOUT, rights=None)

    assert answer.why == "ann's token is for pools t* alone, and this is about node-facts on gpu-01 (pools h100 lab)."


def test_an_answer_names_the_line_that_decides() -> None:
    rights = [right("bob", place="policy.yaml:3"), right("ann", place="policy.yaml:7")]

    answer = may(ANN, Permission.APPROVE, about=ABOUT, rights=rights)

    assert answer.why == "policy.yaml:7 lets ann answer this gate: node-facts on gpu-01 (pools h100 lab)."
    assert [look.by for look in answer.looks] == [By.REQUESTER, By.ROLE, By.REACH, By.RIGHTS]


names = st.sampled_from(("a", "b", "ab", "*", "a*", "?"))
globs = st.lists(names, max_size=2).map(tuple)
reaches = st.builds(Reach, globs, globs)
people = st.builds(
    Person,
    st.sampled_from(("ann", "bob")),
    st.frozensets(st.sampled_from(Role)),
    reaches,
    st.frozensets(st.just("g"), max_size=1),
)
entries = st.builds(
    Right,
    st.frozensets(st.sampled_from(("ann", "bob", "group:g", "*")), min_size=1),
    st.frozensets(st.sampled_from(Permission), min_size=1),
    reaches,
)
matters = st.builds(
    About,
    st.none() | st.sampled_from(("a", "b", "ab")),
    st.none() | st.frozensets(st.sampled_from(("a", "b", "ab"))),
    requesters=st.frozensets(st.sampled_from(("ann", "bob"))),
)


@given(people, st.sampled_from(Permission), matters, st.none() | st.lists(entries, max_size=3))
def test_reach_rights_and_requests_only_ever_narrow_what_the_roles_grant(
    person: Person, permission: Permission, about: About, rights: list[Right] | None
) -> None:
    answer = may(person, permission, about=about, rights=rights, break_glass_off="")

    grants = any(permission in granted(role) for role in person.roles)
    wider = Person(person.name, person.roles, EVERYTHING, person.groups)
    assert grants or not answer.allowed
    assert not answer.allowed or may(wider, permission, about=about, rights=rights, break_glass_off="").allowed
    assert not answer.allowed or may(person, permission, about=about, rights=None, break_glass_off="").allowed
    assert not answer.allowed or permission is not Permission.APPROVE or person.name not in about.requesters


@given(people, st.sampled_from(Permission), matters, st.lists(entries, max_size=2), entries)
def test_an_entry_more_takes_nothing_away_and_one_less_gives_nothing(
    person: Person, permission: Permission, about: About, rights: list[Right], more: Right
) -> None:
    before = may(person, permission, about=about, rights=rights).allowed
    after = may(person, permission, about=about, rights=[*rights, more]).allowed

    assert after or not before
