"""The first look of a connection: as whom we are in, and whether we may be."""

import re
from dataclasses import dataclass
from typing import assert_never

from service.domain.node import Become, Endpoint, Login
from service.domain.script import NotStarted
from service.executors.not_sent import NotSent
from service.executors.ssh.link import BROKEN, Link, close_quietly, unreachable

#: Users below are the system's own; logind spares their IPC (logind.conf(5), RemoveIPC).
_FIRST_NORMAL_UID = 1000
_MOST_BYTES = 65536
_ROOT_RULE = "`login: root` wants uid 0"

# Constant: nothing of an order is in it. Its answer is found by its own words, since start-up files of the
# login shell may write before and after.
_LOOK = (
    "exec sh -c '"
    "u=$(id -un); l=no; s=no; i=; read -r i </proc/sys/kernel/random/boot_id; "
    '[ -e "/var/lib/systemd/linger/$u" ] && l=yes; '
    # A file that was made by hand means nothing to a logind that already ran; where nobody is asked, the file counts.
    '[ $l = yes ] && [ "$(timeout 3 loginctl show-user "$u" --property=Linger --value 2>/dev/null)" = no ] && l=no; '
    "%s"
    'echo "unstick-first-look uid=$(id -u) linger=$l sudo=$s boot=$i user=$u"'
    "' </dev/null"
)
_SUDO = "env LC_ALL=C sudo -n sh -c : >/dev/null 2>&1 && s=yes; "
_ANSWER = re.compile(rb"unstick-first-look uid=(\d+) linger=(yes|no) sudo=(yes|no) boot=(\S*) user=(\S+)")


@dataclass(frozen=True)
class FirstLook:
    """What a connection finds on the other side."""

    uid: int
    user: str
    lingering: bool
    sudo: bool
    boot_id: str | None


def look(link: Link) -> FirstLook:
    """Ask who we are there; NotSent when no answer comes."""
    endpoint, within = link.endpoint, link.patience.look
    command = _LOOK % (_SUDO if endpoint.become is Become.SUDO else "")
    try:
        with link.cut_after(within):
            said = _run(link, command)
    except BROKEN as error:
        if endpoint.become is Become.SUDO:
            raise _sudo_refused(endpoint) from error
        raise unreachable(endpoint, f"no answer from the login shell within {within:.0f} s") from error
    answer = _ANSWER.search(said)
    if answer is None:
        heard = said.decode("utf-8", "backslashreplace").strip()[:200]
        raise NotSent(
            NotStarted.LOGIN,
            f"{endpoint.user} has no usable login shell on {endpoint.name}: it answered {heard!r}.",
            "Give it `/bin/sh` or `/bin/bash`, without a forced command.",
        )
    uid, linger, sudo, boot, user = (part.decode("utf-8", "backslashreplace") for part in answer.groups())
    return FirstLook(int(uid), user, linger == "yes", sudo == "yes", boot or None)


def judge_unseen(endpoint: Endpoint) -> None:
    """Return when it may be tried to log in; else NotSent.

    A look is a login too, and its end can fire RemoveIPC: what the inventory alone shows to be wrong is refused
    before anybody logs in.
    """
    if endpoint.login is Login.ROOT and endpoint.user != "root":
        raise _user_refused(endpoint, endpoint.user, rule=_ROOT_RULE)


def judge(seen: FirstLook, endpoint: Endpoint) -> None:
    """Return when scripts may be sent as this user; else NotSent.

    Closing the last session of a normal user lets logind remove that user's shared memory and semaphores
    (RemoveIPC): the check itself would then break what runs on the node.
    """
    _judge_user(seen, endpoint)
    if endpoint.become is Become.SUDO and seen.uid != 0 and not seen.sudo:
        raise _sudo_refused(endpoint)


def _judge_user(seen: FirstLook, endpoint: Endpoint) -> None:
    match endpoint.login:
        case Login.ROOT:
            allowed, rule = seen.uid == 0, _ROOT_RULE
        case Login.SYSTEM:
            allowed, rule = (
                0 < seen.uid < _FIRST_NORMAL_UID,
                f"`login: system` wants a uid from 1 to {_FIRST_NORMAL_UID - 1}",
            )
        case Login.LINGERING:
            allowed, rule = (
                seen.lingering,
                f"`login: lingering` wants /var/lib/systemd/linger/{seen.user}, and logind to know of it",
            )
        case _:
            assert_never(endpoint.login)
    if allowed:
        return
    harmed = ""
    if seen.uid >= _FIRST_NORMAL_UID and not seen.lingering:
        # Whoever is sent to look for the fault must know that it may be this look.
        harmed = f" This look was such a login: if it was the last one of {seen.user}, they are gone now."
    raise _user_refused(endpoint, f"{seen.user} (uid {seen.uid})", rule=rule, harmed=harmed)


def _user_refused(endpoint: Endpoint, user: str, *, rule: str, harmed: str = "") -> NotSent:
    return NotSent(
        NotStarted.LOGIN,
        f"{user} may not be used on {endpoint.name}: {rule}, because closing the last session of any other user fires "
        f"RemoveIPC, which deletes the shared memory and semaphores it has.{harmed}",
        "Log in as root; or as a system user, with `login: system`; or run "
        f"`loginctl enable-linger {endpoint.user}` there, with `login: lingering`.",
    )


def _sudo_refused(endpoint: Endpoint) -> NotSent:
    return NotSent(
        NotStarted.SUDO,
        f"sudo needs a password or a tty on {endpoint.name} for {endpoint.user}.",
        f"Give it `{endpoint.user} ALL=(root) NOPASSWD: ALL` without `requiretty` in /etc/sudoers.d/.",
    )


def _run(link: Link, command: str) -> bytes:
    said = b""
    channel = link.channel()
    try:
        channel.settimeout(link.patience.look)
        channel.set_combine_stderr(True)
        channel.exec_command(command)
        while len(said) < _MOST_BYTES and (more := channel.recv(_MOST_BYTES)):
            said += more
    finally:
        close_quietly(channel)
    if not said and not link.alive():
        raise EOFError
    return said
