"""Before the first login of a user who may be the wrong one, it is said what is only believed of that user."""

from dataclasses import replace

import pytest

from service.domain.logins import beliefs
from service.domain.node import Endpoint, ExecutorKind, Login

ROOT = Endpoint("gpu-01", ExecutorKind.SSH, "192.0.2.1")
HARM = "the end of a login deletes the shared memory and semaphores of all that {} runs there (RemoveIPC)"


def as_user(name: str, user: str, login: Login) -> Endpoint:
    return replace(ROOT, name=name, user=user, login=login)


def test_each_user_and_rule_is_told_once_with_the_way_to_see_it_without_a_login() -> None:
    machines = [as_user(f"gpu-0{number}", "unstick", Login.SYSTEM) for number in range(1, 8)]

    told = beliefs([*machines, as_user("gpu-09", "alice", Login.LINGERING)])

    assert told == [
        (
            "unstick is believed to be a system user on gpu-01, gpu-02, gpu-03, gpu-04, gpu-05 (and 2 more) "
            "(`login: system`), which is seen only once unstick is logged in. If that is wrong, "
            f"{HARM.format('unstick')}. To know it before, ask as root there: `id -u unstick` says less than 1000."
        ),
        (
            "alice is believed to linger on gpu-09 (`login: lingering`), which is seen only once alice is logged in. "
            f"If that is wrong, {HARM.format('alice')}. To know it before, ask as root there: "
            "`loginctl show-user alice --property=Linger` says yes."
        ),
    ]


def test_a_user_of_a_jump_host_is_told_too_since_nobody_looks_there() -> None:
    hop = Endpoint("bastion", ExecutorKind.SSH, "192.0.2.9", user="hop")

    told = beliefs([replace(ROOT, jump=hop), replace(ROOT, name="gpu-02", jump=hop)])

    assert told == [
        (
            "Connections go through bastion as hop, and nobody looks there who that is. If hop is an ordinary user who "
            f"does not linger, {HARM.format('hop')}: let the way go through a user who runs nothing."
        )
    ]


@pytest.mark.parametrize(
    "machine",
    [
        ROOT,
        replace(ROOT, jump=replace(ROOT, name="bastion")),
        replace(ROOT, login=Login.LINGERING),
        # Refused before anybody logs in.
        replace(ROOT, user="alice"),
        Endpoint("gpu-01", ExecutorKind.SSM, "i-0123456789abcdef0"),
        Endpoint("here", ExecutorKind.LOCAL, "here"),
    ],
    ids=["root", "root by root", "root who lingers", "refused", "ssm", "local"],
)
def test_where_no_login_can_do_harm_nothing_is_told(machine: Endpoint) -> None:
    assert beliefs([machine]) == []
