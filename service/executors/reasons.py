"""The sentences of a report: what happened on the node, and the way out."""

import os
from collections.abc import Sequence
from datetime import datetime

from service.domain.node import Endpoint, ExecutorKind
from service.domain.script import Facts, say_unconfined
from service.domain.shown_text import shown_moment


def other_boot(node: str) -> str:
    """Say that the node has booted."""
    return f"{node} has booted since it was looked at, so nothing was started. Look again and decide again."


def too_late(node: str, clock: datetime | None, not_after: datetime | None) -> str:
    """Say that the order came after its time."""
    return (
        f"The order reached {node} at {_time(clock)} by its clock, after {_time(not_after)}, so nothing was started. "
        "If that clock is wrong, set it (chronyc makestep, or timedatectl); else look again."
    )


def clock(node: str, node_clock: datetime | None, sent_at: datetime | None) -> str:
    """Say that the node's clock is not ours."""
    return (
        f"The clock of {node} says {_time(node_clock)}, but the order was sent at {_time(sent_at)}: by that clock "
        "a late order cannot be told, so nothing was started. Set the clock (chronyc makestep, or timedatectl)."
    )


def held(node: str, service: str, attempt: str, *, pid: int | None, wchan: str) -> str:
    """Say who holds the node."""
    who = f"attempt {attempt} of {service}" if attempt else "somebody who is just looking"
    process = f", pid {pid}" if pid else ""
    where = f", waiting in {wchan}" if wchan else ""
    return (
        f"{node} is held by {who}{process}{where}, so nothing was started. "
        "Wait until that script has ended, or settle it where it was requested."
    )


def void(node: str) -> str:
    """Say that the attempt never ran."""
    return f"The script never started on {node}, and a start that comes late will find the door closed."


def no_bash(node: str, missing: str) -> str:
    """Say which program the node lacks."""
    return f"{node} has no {missing or 'bash'} on the PATH of the login, so nothing was started. Install it there."


def no_space(node: str) -> str:
    """Say that the folder of the attempts is full."""
    return f"The file system of /run/unstick on {node} is full, so nothing was started. Make room there (df /run)."


def folder(node: str, said: str) -> str:
    """Say that the folder of the attempts cannot be trusted or made."""
    why = f" ({said.strip()})" if said.strip() else ""
    return (
        f"The folder of the attempts on {node} cannot be used{why}, so nothing was started. "
        "/run/unstick (without root: unstick-UID in /var/tmp) must be a folder of the login user, mode 0700, "
        "and no symbolic link: remove what is there."
    )


def wrong_view(endpoint: Endpoint, facts: Facts | None) -> str:
    """Say from where the envelope looked."""
    seen = "an unknown place"
    if facts is not None:
        mounts = "the" if facts.mount_namespace_is_init else "not the"
        seen = (
            f"PID namespace {facts.pid_namespace}, PID 1 {facts.init_name or 'unknown'}, {mounts} mount namespace of "
            f"PID 1, uid {facts.uid}"
        )
    return (
        f"The inventory says view: {endpoint.view} of {endpoint.name}, but the script would look from {seen}, so "
        "nothing was started. " + _right_view(facts, endpoint.executor)
    )


def _right_view(facts: Facts | None, executor: ExecutorKind) -> str:
    """Say under which view that place would be right, or what it lacks."""
    if executor is ExecutorKind.LOCAL:
        return "If what unstick sees here is what is meant, write `view: private`; else run it outside its container."
    if facts is not None and facts.mount_namespace_is_init and facts.init_name == "systemd":
        return "If it is a booted container, write `view: boot`; else log in to the machine itself as root."
    return "Log in to the machine itself as root, in the namespaces of its PID 1."


def sudo(node: str, said: str) -> str:
    """Say that sudo refused."""
    first = next((line for line in said.splitlines() if "sudo" in line), "sudo said nothing")
    return (
        f"sudo needs a password or a tty on {node}, or refuses this user ({first.strip()}), so nothing was started. "
        "Allow the login user NOPASSWD and !requiretty in sudoers, or log in as root."
    )


def login_shell(node: str, user: str) -> str:
    """Say that the user may not have a shell."""
    return f"{user} has no login shell on {node}, so nothing was started. Name another user in the inventory."


def lost(node: str, ending: str, said: str) -> str:
    """Say that no answer came."""
    last = said.splitlines()[-1][:200] if said else ""
    heard = f" (last heard: {last!r})" if last else ""
    return (
        f"No answer came from {node}: {ending}{heard}. "
        "The script may have run; the node is asked again until it tells how the attempt stands."
    )


def no_exit_code(node: str) -> str:
    """Say that the script is gone and nobody saw it end."""
    return (
        f"The script on {node} is gone without an exit code: its processes were killed from outside. "
        "What it had done by then cannot be known; look at the node, then resolve the step."
    )


def rebooted(node: str) -> str:
    """Say that the node has booted since the order."""
    return f"{node} has booted since the order was sent; what the script had done by then cannot be known from it."


def running(node: str, pid: int | None) -> str:
    """Say that the script runs."""
    return f"The script still runs on {node} (pid {pid})." if pid else f"The script is being started on {node}."


def unkillable(node: str, pid: int | None, wchan: str) -> str:
    """Say who survived SIGKILL."""
    return (
        f"Process {pid} of the script on {node} survived SIGKILL; it waits in {wchan or 'the kernel'}. "
        "Free what it waits for (such as a FUSE connection), or reboot the node."
    )


def ended(cause: str) -> str:
    """Say who ended the script; nothing when it ended by itself."""
    match cause:
        case "":
            return ""
        case "stop":
            return "The script was stopped, and nothing of it runs any more."
        case _:
            return "The script was ended at its deadline, and nothing of it runs any more."


def still_open(streams: Sequence[str]) -> str:
    """Say that a child holds a stream."""
    if not streams:
        return ""
    return f"Stream still open: a process that the script left behind holds {' and '.join(streams)}."


def unconfined(parts: Sequence[str]) -> str:
    """Say what did not keep a script that only reads from touching the node; nothing when all held."""
    return say_unconfined(_loose(parts)) if parts else ""


def not_confined(node: str, parts: Sequence[str]) -> str:
    """Say that a script was not started, because it could not be confined."""
    return (
        f"The inventory says confine: required of {node}, and the script would run unconfined: {_loose(parts)}. "
        "Nothing was started. Mend that, or write `confine: try`."
    )


def _loose(parts: Sequence[str]) -> str:
    """Return in words what the envelope says, such as `mounts:38`: the part, and the number of the error."""
    said = []
    for part in parts:
        name, _, number = part.partition(":")
        error = os.strerror(int(number)) if number.isdecimal() and 0 < int(number) < _ERRORS else "nobody knows why"
        said.append(f"{_LOOSE.get(name, name)} ({error})" if name not in _PLAINLY else _LOOSE[name])
    return "; ".join(said)


#: Beyond these there is no error number (errno(3)).
_ERRORS = 200
_PLAINLY = ("interpreter", "machine", "login")
_LOOSE = {
    "interpreter": "neither perl nor python3 is there",
    "machine": "its system calls are known for x86_64 and aarch64 alone",
    "login": "it runs as an ordinary user, whose files and processes it may touch",
    "ns": "it has no mount namespace of its own",
    "mounts": "its mounts are not read-only",
    "targets": "it cannot name targets",
    "tmp": "it has no folder of its own for what is temporary",
    "input": "its input was opened outside",
    "user": "it keeps the rights of its user",
    "sockets": "it may talk to what runs containers and units",
    "proc": "it has no /proc of its own",
    "devices": "it may write to devices of its user",
    "privileges": "a program may give it new rights",
    "filter": "its system calls are not filtered",
}


def targets_left_out(left_out: bool) -> str:
    """Say that there were more targets than fit."""
    return "More targets were named than fit into 64 KiB; the rest was left out." if left_out else ""


def _time(moment: datetime | None) -> str:
    return shown_moment(moment) if moment else "an unknown time"
