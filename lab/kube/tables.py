"""Lists as tables, so that `kubectl get` shows columns (meta.k8s.io/v1 Table)."""

from lab.kube.objects import Object

_COLUMNS = {
    "Node": ["Name", "Status", "Roles", "Age", "Version"],
    "Pod": ["Name", "Ready", "Status", "Restarts", "Age"],
    "PodDisruptionBudget": ["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"],
}


def table(kind: str, items: list[Object], meta: Object) -> Object:
    """Return the table of some items of one kind."""
    names = _COLUMNS.get(kind, ["Name", "Age"])
    columns = [{"name": n, "type": "string", "format": "", "description": n, "priority": 0} for n in names]
    rows = [{"cells": _cells(kind, item), "object": _partial(item)} for item in items]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": columns,
        "rows": rows,
    }


def _partial(item: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def _cells(kind: str, item: Object) -> list[str]:
    name = item["metadata"]["name"]
    age = "1m"
    match kind:
        case "Node":
            ready = next((one["status"] for one in item["status"]["conditions"] if one["type"] == "Ready"), "Unknown")
            words = ["Ready" if ready == "True" else "NotReady"]
            words += ["SchedulingDisabled"] if item["spec"].get("unschedulable") else []
            return [name, ",".join(words), "<none>", age, item["status"]["nodeInfo"]["kubeletVersion"]]
        case "Pod":
            phase = "Terminating" if "deletionTimestamp" in item["metadata"] else item["status"]["phase"]
            return [name, "1/1" if phase == "Running" else "0/1", phase, "0", age]
        case "PodDisruptionBudget":
            allowed = item["status"]["disruptionsAllowed"]
            return [name, str(item["spec"].get("minAvailable", "N/A")), "N/A", str(allowed), age]
        case _:
            return [name, age]
