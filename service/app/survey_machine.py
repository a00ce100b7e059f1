"""What a machine says of itself: who has logged in, and what computes on its GPUs. Pure."""

import re
from collections import Counter
from collections.abc import Mapping

from service.app.survey_frames import NONE, Said
from service.domain.survey import Kind, Occupant, Part, could_not_look, not_asked, seen, word

#: The first uid of a person, but for `nobody` (systemd: docs/UIDS-GIDS.md).
_FIRST_PERSON, _NOBODY = 1000, 65534
#: The first columns of `loginctl list-users` and `list-sessions`, the same in every version (loginctl(1)).
_USER = re.compile(r"\s*([0-9]{1,10})\s+(\S+)(?:\s.*)?")
_SESSION = re.compile(r"\s*([A-Za-z0-9]+)\s+([0-9]{1,10})\s+(\S+)(?:\s.*)?")
_APP = re.compile(r"((?:GPU|MIG)-[0-9A-Za-z/-]{1,80}), *([0-9]{1,10}), *([0-9]{1,10}|\[?[A-Za-z/ ]{1,30}\]?)")
_POD = re.compile(r"pod([0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12})")
_JOB = re.compile(r"/job_([0-9]+)(?:/|$)", re.MULTILINE)
_UID = re.compile(r"^Uid:\s+([0-9]+)\s", re.MULTILINE)
_SILENT = Said("1", "nothing was said of it")


def read_machine(parts: Mapping[str, Said], login: str) -> Mapping[Kind, Part]:
    """Return users and GPU processes of a node; `login` is the user as whom scripts come."""
    users = parts.get("users", _SILENT)
    return {
        Kind.USERS: _users(users, parts.get("sessions", _SILENT), login=login),
        Kind.GPU_PROCESSES: _gpu_processes(parts, names=_names(users)),
    }


def _users(users: Said, sessions: Said, *, login: str) -> Part:
    if users.end == NONE:
        return not_asked("systemd does not run there")
    for said in (users, sessions):
        if not said.good:
            return could_not_look(said.fault)
    known = [_USER.fullmatch(line) for line in users.text.split("\n") if line.strip()]
    open_sessions = [_SESSION.fullmatch(line) for line in sessions.text.split("\n") if line.strip()]
    if not all(known) or not all(open_sessions):
        return could_not_look("loginctl says what is no list of users and sessions")
    counted = Counter(match.group(2) for match in open_sessions if match is not None)
    return seen(
        _user(int(match.group(1)), match.group(2), counted[match.group(1)], login=login)
        for match in known
        if match is not None
    )


def _user(uid: int, name: str, sessions: int, *, login: str) -> Occupant:
    if name == login:
        apart = "the login of unstick"
    elif uid < _FIRST_PERSON or uid == _NOBODY:
        apart = "system user"
    else:
        apart = "" if sessions else "no session"
    return Occupant(word(name), {"uid": str(uid), "sessions": str(sessions)}, apart)


def _names(users: Said) -> dict[str, str]:
    found = [_USER.fullmatch(line) for line in users.text.split("\n")] if users.good else []
    return {match.group(1): match.group(2) for match in found if match is not None}


def _gpu_processes(parts: Mapping[str, Said], *, names: Mapping[str, str]) -> Part:
    said = parts.get("gpus", _SILENT)
    if said.end == NONE:
        return not_asked("there is no GPU driver")
    if not said.good:
        return could_not_look(said.fault)
    rows = [_APP.fullmatch(line.strip()) for line in said.text.split("\n") if line.strip()]
    if not all(rows):
        return could_not_look(f"nvidia-smi says: {said.text[-500:]}")
    return seen(_gpu_process(parts, *match.groups(), names=names) for match in rows if match is not None)


def _gpu_process(parts: Mapping[str, Said], gpu: str, pid: str, memory: str, *, names: Mapping[str, str]) -> Occupant:
    groups = _text(parts, "cgroup", pid)
    pod, job, uid = _POD.search(groups), _JOB.search(groups), _UID.search(_text(parts, "status", pid))
    facts = {
        "command": _text(parts, "comm", pid).removesuffix("\n"),
        "gpu": gpu,
        "memory": f"{memory} MiB" if memory.isdecimal() else "",
        "user": names.get(uid.group(1), uid.group(1)) if uid is not None else "",
        "pod": pod.group(1).replace("_", "-") if pod is not None else "",
        "job": job.group(1) if job is not None else "",
    }
    return Occupant(pid, {key: word(value) for key, value in facts.items() if value})


def _text(parts: Mapping[str, Said], file: str, pid: str) -> str:
    said = parts.get(f"{file}-{pid}")
    return said.text if said is not None else ""
