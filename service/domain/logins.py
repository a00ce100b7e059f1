"""What is believed of the users who log in and seen only once they are in, which is too late where it is wrong. Pure.

When the last login of an ordinary user ends, logind deletes what that user has in shared memory, also that of work
which belongs to no login (RemoveIPC, logind.conf(5)). A look of ours is such a login.
"""

from collections.abc import Iterable, Iterator, Sequence

from service.domain.node import Endpoint, ExecutorKind, Login

#: So many machines are named beside one sentence.
_MOST_NAMES = 5
#: What is believed, and by what root sees it without anybody else logging in.
_BELIEVED = {
    Login.SYSTEM: ("is believed to be a system user", "`id -u {user}` says less than 1000"),
    Login.LINGERING: ("is believed to linger", "`loginctl show-user {user} --property=Linger` says yes"),
}


def beliefs(machines: Iterable[Endpoint]) -> list[str]:
    """Return a sentence for each user whose logout may do harm for all that anybody has seen, with the way to see it.

    None for root, and none for whom `login: root` refuses before anybody logs in.
    """
    found: dict[tuple[str, Login | None], dict[str, None]] = {}
    for machine in machines:
        for user, login, name in _believed(machine):
            found.setdefault((user, login), {})[name] = None
    return [_sentence(user, login, names=list(names)) for (user, login), names in found.items()]


def _believed(machine: Endpoint) -> Iterator[tuple[str, Login | None, str]]:
    """Yield user, rule and name of each machine on the way; a jump host has no rule, since nothing is asked there."""
    if machine.executor is ExecutorKind.SSH and machine.user != "root" and machine.login in _BELIEVED:
        yield machine.user, machine.login, machine.name
    hop = machine.jump
    while hop is not None:
        if hop.user != "root":
            yield hop.user, None, hop.name
        hop = hop.jump


def _sentence(user: str, login: Login | None, *, names: Sequence[str]) -> str:
    others = f" (and {len(names) - _MOST_NAMES} more)" if len(names) > _MOST_NAMES else ""
    where = f"{', '.join(names[:_MOST_NAMES])}{others}"
    harm = f"the end of a login deletes the shared memory and semaphores of all that {user} runs there (RemoveIPC)"
    if login is None:
        return (
            f"Connections go through {where} as {user}, and nobody looks there who that is. If {user} is an ordinary "
            f"user who does not linger, {harm}: let the way go through a user who runs nothing."
        )
    what, seen = _BELIEVED[login]
    return (
        f"{user} {what} on {where} (`login: {login}`), which is seen only once {user} is logged in. If that is wrong, "
        f"{harm}. To know it before, ask as root there: {seen.format(user=user)}."
    )
