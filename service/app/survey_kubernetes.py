"""What a cluster of Kubernetes says of a node: who has it, and the pods on it. Pure.

Nobody's name stands at a cordon; one without our annotation is somebody else's.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from service.app.survey_frames import Said, unquoted
from service.domain.survey import Kind, Occupant, Part, could_not_look, seen, word

#: Taints of those who are about to remove a node (kubernetes/autoscaler, cluster-autoscaler/FAQ.md; karpenter.sh, docs:
#: disruption).
_REMOVERS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler is about to remove it",
    "karpenter.sh/disrupted": "Karpenter is about to remove it",
    "karpenter.sh/disruption": "Karpenter is about to remove it",
}
_SILENT = Said("1", "nothing was said of it")


def read_kubernetes(parts: Mapping[str, Said], node: str, *, uid: str, now: datetime) -> Mapping[Kind, Part]:
    """Return owners and pods of a node, by its name in the cluster; `uid` is what kube-system must have, if any."""
    cluster = parts.get("cluster", _SILENT)
    if not cluster.good:
        why = could_not_look(cluster.fault)
    elif uid and cluster.text != uid:
        why = could_not_look(f"wrong cluster: its kube-system has the UID {cluster.text}")
    else:
        owners = _owners(parts.get("node", _SILENT), parts.get("locks", _SILENT), node, now=now)
        return {Kind.OWNERS: owners, Kind.PODS: _pods(parts.get("pods", _SILENT))}
    return {Kind.OWNERS: why, Kind.PODS: why}


def _owners(node: Said, locks: Said, name: str, *, now: datetime) -> Part:
    if not node.good:
        return could_not_look(node.fault)
    found = _of_node(node.text)
    if found is None:
        return could_not_look(f"kubectl says of the node: {node.text}")
    if not locks.good:
        return could_not_look(f"kured's lock: {locks.fault}")
    holder = _lock_of(locks.text, name, now=now)
    if holder is None:
        return could_not_look(f"kubectl says of the DaemonSets: {locks.text[-500:]}")
    return seen((*found, *holder))


def _of_node(text: str) -> tuple[Occupant, ...] | None:
    lines = text.split("\n")
    if lines[0] not in ("cordoned yes", "cordoned no") or lines[-1] != "end":
        return None
    ours, found = False, []
    for line in lines[1:-1]:
        taint, own = unquoted(line, "taint", count=1), unquoted(line, "ours", count=1)
        if taint is None and own is None:
            return None
        ours = ours or own is not None
        if taint is not None and taint[0] in _REMOVERS:
            found.append(Occupant(_REMOVERS[taint[0]], {"taint": taint[0]}))
    if lines[0] == "cordoned yes":
        apart = "unstick's own cordon" if ours else ""
        found.insert(0, Occupant("cordoned by unstick" if ours else "cordoned by others", apart=apart))
    return tuple(found)


def _lock_of(text: str, node: str, *, now: datetime) -> tuple[Occupant, ...] | None:
    """Return who holds kured's lock for this node; None when that cannot be read."""
    *lines, last = text.split("\n")
    if not re.fullmatch(r"[0-9]+ daemonsets", last):
        return None
    found = []
    for line in lines:
        lock = unquoted(line, "lock", count=3)
        holders = None if lock is None else _holders(lock[2], now)
        if lock is None or holders is None:
            return None
        if node in holders:
            found.append(Occupant("kured has the lock for it", {"DaemonSet": word(f"{lock[0]}/{lock[1]}")}))
    return tuple(found)


def _holders(text: str, now: datetime) -> frozenset[str] | None:
    """Return the nodes that have a lock; one alone, or several of `--concurrency`.

    The words are those of kubereboot/kured, pkg/daemonsetlock: nodeID, created, and TTL in nanoseconds (0: for ever).
    """
    if not text:
        return frozenset()
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    locks = said.get("locks", [said]) if isinstance(said, dict) else None
    if not isinstance(locks, list) or not all(isinstance(one, dict) for one in locks):
        return None
    names = [one.get("nodeID", one.get("nodeId")) for one in locks if not _is_over(one, now)]
    return frozenset(names) if all(isinstance(name, str) for name in names) else None


def _is_over(lock: Mapping[str, Any], now: datetime) -> bool:
    lives, began = lock.get("TTL", 0), lock.get("created", "")
    if isinstance(lives, bool) or not isinstance(lives, int) or lives <= 0 or not isinstance(began, str):
        return False
    # Python reads at most six places behind the second, and Go writes nine.
    try:
        return now > datetime.fromisoformat(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", began)) + timedelta(
            microseconds=lives // 1000
        )
    except (ValueError, TypeError, OverflowError):
        return False


def _pods(said: Said) -> Part:
    if not said.good:
        return could_not_look(said.fault)
    *lines, last = said.text.split("\n")
    pods = [unquoted(line, "pod", count=8) for line in lines]
    if last != f"{len(pods)} pods":
        return could_not_look(f"kubectl says of the pods: {said.text[-500:]}")
    found = [_pod(*pod) for pod in pods if pod is not None]
    if len(found) != len(pods):
        return could_not_look("kubectl says of the pods what is no list of pods")
    return seen(found)


def _pod(space: str, name: str, uid: str, phase: str, kind: str, owner: str, priority: str, mirror: str) -> Occupant:
    if mirror == "yes":
        apart = "static pod"
    elif kind == "DaemonSet":
        apart = "DaemonSet"
    else:
        apart = "ended" if phase in ("Succeeded", "Failed") else ""
    facts = {"owner": f"{kind}/{owner}" if kind else "", "priority": priority, "phase": phase, "uid": uid}
    return Occupant(word(f"{space}/{name}"), {key: word(value) for key, value in facts.items() if value}, apart)
