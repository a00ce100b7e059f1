"""Objects as the API server would give them; the fields are those of kubernetes.io/docs/reference/kubernetes-api."""

import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Object = dict[str, Any]
#: What else a node tells of its system; every field of NodeSystemInfo is required.
_SYSTEM = {
    "architecture": "amd64",
    "containerRuntimeVersion": "containerd://1.7.0",
    "kernelVersion": "6.1.0",
    "kubeProxyVersion": "v1.31.0",
    "kubeletVersion": "v1.31.0",
    "operatingSystem": "linux",
    "osImage": "Debian GNU/Linux 12 (bookworm)",
}
_versions = itertools.count(1000)


def now(later: float = 0) -> str:
    """Return the time, or that of some seconds later, as the API writes it: in whole seconds."""
    return (datetime.now(UTC) + timedelta(seconds=later)).strftime("%Y-%m-%dT%H:%M:%SZ")


def next_version() -> str:
    """Return a resourceVersion that was not given before."""
    return str(next(_versions))


def metadata(name: str, namespace: str | None = None, **more: Any) -> Object:
    """Return the metadata of a new object."""
    made: Object = {
        "name": name,
        "uid": str(uuid.uuid4()),
        "resourceVersion": next_version(),
        "creationTimestamp": now(),
        **more,
    }
    return made | ({"namespace": namespace} if namespace else {})


@dataclass(frozen=True)
class Owner:
    """The controller of a pod."""

    kind: str
    name: str
    api_version: str = "apps/v1"
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))

    def reference(self) -> Object:
        """Return the ownerReferences entry."""
        reference = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}
        return reference | {"controller": True, "blockOwnerDeletion": True}


@dataclass(frozen=True)
class PodSpec:
    """What a test says of a pod; `ends_after` is how long its processes need to end, None: they never do."""

    name: str
    namespace: str = "ml"
    owner: Owner | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    empty_dir: bool = False
    mirror: bool = False
    phase: str = "Running"
    grace: int = 30
    ends_after: float | None = 0.1
    finalizers: Sequence[str] = ()

    def on(self, node: str) -> Object:
        """Return the pod on a node."""
        annotations = (
            {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.source": "file"} if self.mirror else {}
        )
        meta = metadata(self.name, self.namespace, labels=dict(self.labels), annotations=annotations)
        if self.owner is not None:
            meta["ownerReferences"] = [self.owner.reference()]
        if self.finalizers:
            meta["finalizers"] = list(self.finalizers)
        volumes = [{"name": "scratch", "emptyDir": {}}] if self.empty_dir else []
        running = self.phase == "Running"
        state = {"running": {"startedAt": now()}} if running else {"terminated": {"exitCode": 0}}
        container = {"name": "main", "image": "registry.example/main", "imageID": "sha256:0", "restartCount": 0}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "image": "registry.example/main"}],
                "volumes": volumes,
                "terminationGracePeriodSeconds": self.grace,
            },
            "status": {
                "phase": self.phase,
                "containerStatuses": [container | {"ready": running, "state": state}],
            },
        }


def node(name: str, *, boot_id: str, gpus: int = 8, labels: Mapping[str, str] | None = None) -> Object:
    """Return a node that is Ready."""
    count = {"cpu": "96", "memory": "1Ti", "pods": "110"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels={"kubernetes.io/hostname": name} | dict(labels or {}), annotations={}),
        "spec": {"providerID": f"lab:///{name}"},
        "status": {
            "capacity": dict(count),
            "allocatable": dict(count),
            "conditions": [ready | {"lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": now()}],
            "nodeInfo": _SYSTEM | {"bootID": boot_id, "machineID": uuid.uuid4().hex, "systemUUID": str(uuid.uuid4())},
        },
    }


def namespace(name: str) -> Object:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name), "status": {"phase": "Active"}}


def budget(name: str, *, labels: Mapping[str, str], allowed: int, namespace: str = "ml") -> Object:
    """Return a PodDisruptionBudget that allows so many more disruptions."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name, namespace),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": dict(labels)}},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 1 + allowed,
            "desiredHealthy": 1,
            "expectedPods": 1 + allowed,
        },
    }


def daemon_set(owner: Owner, namespace: str) -> Object:
    """Return the DaemonSet that an owner names."""
    meta = metadata(owner.name, namespace) | {"uid": owner.uid}
    labels = {"app": owner.name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": []}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec, "status": {}}


def status(code: int, reason: str = "", message: str = "", details: Object | None = None) -> Object:
    """Return the Status that answers a request."""
    success = code < 400
    told: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" if success else "Failure"}
    if not success:
        told |= {"reason": reason, "message": message}
    return told | {"code": code} | ({"details": details} if details else {})
