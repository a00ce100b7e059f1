"""What a Slurm cluster says of a node: who has it, and the jobs on it. Pure.

`Reason` is the last free text of a line, but for the node's kernel (slurm, src/api/node_info.c).
"""

import re
from collections.abc import Mapping

from service.app.survey_frames import Said
from service.domain.survey import Kind, Occupant, Part, could_not_look, seen, word

#: A name that scontrol takes for one node, and not for a list, a range or every node.
NODE_NAME = re.compile(r"(?!(?i:all)\Z)[A-Za-z0-9][A-Za-z0-9._-]*")
_SYSTEM = re.compile(r" OS=.*?(?= RealMemory=)", re.DOTALL)
_REASON = re.compile(r" Reason=(.*?)(?: \[([^\]\s@]+)@[0-9T:-]+\])?[ \n]*\Z", re.DOTALL)
_STATE = re.compile(r"([A-Z_]+)([*~#!%$@^-]*)")
#: Signs behind a state before 21.08 (sinfo(1), NODE STATE CODES).
_SIGNS = {"~": "POWERED_DOWN", "!": "POWER_DOWN", "%": "POWERING_DOWN", "$": "MAINTENANCE", "@": "REBOOT_REQUESTED"}
_SIGNS["^"] = "REBOOT_ISSUED"
#: What Slurm itself writes of a sick node, which is why somebody cures it (slurm: node_mgr.c, slurmstepd's req.c).
_ITS_OWN = ("Not responding", "Kill task failed")
_BY_SLURM = (
    (("REBOOT_REQUESTED", "REBOOT_ISSUED", "REBOOT"), "Slurm is about to reboot it"),
    (("POWERED_DOWN", "POWER_DOWN", "POWERING_DOWN"), "Slurm switches its power"),
    (("MAINT", "MAINTENANCE"), "a reservation for maintenance has it"),
)
_JOB = re.compile(r"([0-9]+)\|([^|\n]{1,256})\|([A-Z_]+)\|([0-9]+)\|([^|\n]{1,64})")
_SILENT = Said("1", "nothing was said of it")


def read_slurm(parts: Mapping[str, Said], node: str) -> Mapping[Kind, Part]:
    """Return owners and jobs of a node, by its name in Slurm."""
    return {Kind.OWNERS: _owners(parts.get("node", _SILENT), node), Kind.JOBS: _jobs(parts.get("jobs", _SILENT))}


def _owners(said: Said, node: str) -> Part:
    if not said.good:
        return could_not_look(said.fault)
    line = _SYSTEM.sub("", said.text)
    state = re.search(r" State=(\S+)", line)
    if not line.startswith(f"NodeName={node} ") or state is None:
        return could_not_look(f"scontrol says of the node: {said.text}")
    flags = _flags(state.group(1))
    reason, by = _reason(line)
    found = [Occupant(words) for marks, words in _BY_SLURM if flags & set(marks)]
    if flags & {"DRAIN", "DRAINED", "DRAINING", "FAIL", "DOWN"}:
        taken = _taken(flags, reason, by)
        found += [taken] if taken is not None else []
    return seen(found)


def _taken(flags: frozenset[str], reason: str, by: str) -> Occupant | None:
    """Return who took the node out of service; None when Slurm itself did since it is sick, or nobody says why."""
    drained = bool(flags & {"DRAIN", "DRAINED", "DRAINING", "FAIL"})
    if reason in _ITS_OWN or not (drained or reason):
        return None
    verb = "drained" if drained else "taken down"
    if reason.startswith("unstick:"):
        return Occupant(f"{verb} in Slurm by unstick", {"reason": word(reason)}, "unstick's own drain")
    who = f" by {word(by)}" if by else ""
    why = f": '{word(reason)}'" if reason else ", without a reason"
    return Occupant(f"{verb} in Slurm{who}{why}", {"state": "+".join(sorted(flags))})


def _flags(state: str) -> frozenset[str]:
    found: set[str] = set()
    for one in state.split("+"):
        match = _STATE.fullmatch(one)
        if match is not None:
            found |= {match.group(1), *(_SIGNS[sign] for sign in match.group(2) if sign in _SIGNS)}
    return frozenset(found)


def _reason(line: str) -> tuple[str, str]:
    match = _REASON.search(line)
    reason = match.group(1).strip() if match is not None else ""
    return ("" if reason in ("none", "(null)") else reason), (match.group(2) or "" if match is not None else "")


def _jobs(said: Said) -> Part:
    if not said.good:
        return could_not_look(said.fault)
    jobs = [_JOB.fullmatch(line) for line in said.text.split("\n") if line]
    if not all(jobs):
        return could_not_look(f"squeue says: {said.text}")
    return seen(_job(*match.groups()) for match in jobs if match is not None)


def _job(number: str, user: str, state: str, nodes: str, since: str) -> Occupant:
    return Occupant(number, {"user": word(user), "state": state, "nodes": nodes, "since": word(since)})
