"""The cluster that the server tells of: its objects, evictions, and pods that end or do not."""

import threading
from collections.abc import Iterator, Mapping

from lab.kube import objects
from lab.kube.merging import patched
from lab.kube.objects import Object, Owner, PodSpec, next_version, now

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class Refused(Exception):
    """The request is refused; holds the Status that says why."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        """Take the parts of the Status."""
        super().__init__(message)
        self.status = objects.status(code, reason, message, details)


class Cluster:
    """Objects by resource, namespace and name. Tests change it from their own thread."""

    def __init__(self) -> None:
        """Begin with the namespaces that every cluster has."""
        self.lock = threading.RLock()
        self.kept: dict[str, dict[tuple[str, str], Object]] = {
            each: {} for each in ("nodes", "pods", "namespaces", "daemonsets", "poddisruptionbudgets")
        }
        self._ends_after: dict[str, float | None] = {}
        self._timers: list[threading.Timer] = []
        for name in ("default", "kube-system"):
            self.add("namespaces", objects.namespace(name))

    @property
    def uid(self) -> str:
        """Give the UID of kube-system, by which clusters are told apart."""
        return str(self.get("namespaces", "", "kube-system")["metadata"]["uid"])

    def add(self, resource: str, made: Object) -> Object:
        """Keep an object and return it."""
        meta = made["metadata"]
        with self.lock:
            self.kept[resource][meta.get("namespace", ""), meta["name"]] = made
        return made

    def add_pod(self, spec: PodSpec, node: str) -> str:
        """Put a pod on a node and return its UID; the DaemonSet of an owner of that kind is made too."""
        made = self.add("pods", spec.on(node))
        if isinstance(spec.owner, Owner) and spec.owner.kind == "DaemonSet":
            self.add("daemonsets", objects.daemon_set(spec.owner, spec.namespace))
        uid = str(made["metadata"]["uid"])
        self._ends_after[uid] = spec.ends_after
        return uid

    def get(self, resource: str, namespace: str, name: str) -> Object:
        """Return an object; Refused with 404 when there is none."""
        with self.lock:
            found = self.kept[resource].get((namespace, name))
        if found is None:
            details = {"name": name, "kind": resource}
            raise Refused(404, "NotFound", f'{resource} "{name}" not found', details)
        return found

    def all(self, resource: str, namespace: str = "") -> list[Object]:
        """Return the objects of a resource by namespace and name; an empty namespace: of all."""
        with self.lock:
            return [made for (space, _), made in sorted(self.kept[resource].items()) if namespace in ("", space)]

    def node(self, name: str) -> Object:
        """Return a node."""
        return self.get("nodes", "", name)

    def pods_on(self, node: str) -> list[str]:
        """Return NAMESPACE/NAME of each pod on a node."""
        on = [pod["metadata"] for pod in self.all("pods") if pod["spec"]["nodeName"] == node]
        return [f"{meta['namespace']}/{meta['name']}" for meta in on]

    def patch(
        self, resource: str, place: tuple[str, str], patch: Object, *, kind: str, dry_run: bool = False
    ) -> Object:
        """Return an object with a patch, which is kept unless it is a dry run."""
        with self.lock:
            before = self.get(resource, *place)
            asked = patch.get("metadata", {}).get("resourceVersion")
            if asked not in (None, before["metadata"]["resourceVersion"]):
                message = f'Operation cannot be fulfilled on {resource} "{place[1]}": the object has been modified'
                raise Refused(409, "Conflict", message)
            made = patched(kind, before, patch)
            made["metadata"] = made["metadata"] | {"resourceVersion": next_version()}
            if resource == "nodes":
                made["spec"] = _with_taint(made["spec"])
            if not dry_run:
                self.kept[resource][place] = made
            return made

    def evict(self, place: tuple[str, str], *, dry_run: bool) -> Object:
        """Evict a pod as pkg/registry/core/pod/storage/eviction.go of Kubernetes does: 201, or Refused."""
        with self.lock:
            pod = self.get("pods", *place)
            over = pod["status"]["phase"] in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]
            budgets = [] if over else list(self._budgets(pod))
            if len(budgets) > 1:
                message = (
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                )
                raise Refused(500, "InternalError", message)
            for budget in budgets:
                self._spend(budget, dry_run=dry_run)
            if not dry_run:
                self.delete_pod(place)
            return objects.status(201)

    def delete_pod(self, place: tuple[str, str], *, grace: int | None = None) -> None:
        """Let a pod terminate: it stays until its processes have ended, and for ever where they do not."""
        with self.lock:
            meta = self.get("pods", *place)["metadata"]
            if "deletionTimestamp" in meta:
                return
            spec = self.get("pods", *place)["spec"]
            seconds = spec["terminationGracePeriodSeconds"] if grace is None else grace
            # It is when the pod's time is over, not when somebody asked (apimachinery, ObjectMeta).
            meta["deletionTimestamp"] = now(seconds)
            meta["deletionGracePeriodSeconds"] = seconds
            meta["resourceVersion"] = next_version()
            after = self._ends_after[meta["uid"]]
            if after is not None and not meta.get("finalizers"):
                self._later(after, place, meta["uid"])

    def forget_terminating(self, node: str) -> None:
        """Remove the pods of a node that were terminating, as a kubelet does after a boot."""
        with self.lock:
            for place, pod in list(self.kept["pods"].items()):
                meta = pod["metadata"]
                if pod["spec"]["nodeName"] == node and "deletionTimestamp" in meta and not meta.get("finalizers"):
                    del self.kept["pods"][place]

    def close(self) -> None:
        """End what waits."""
        for timer in self._timers:
            timer.cancel()
            timer.join()

    def _budgets(self, pod: Object) -> Iterator[Object]:
        labels = pod["metadata"].get("labels", {})
        for budget in self.all("poddisruptionbudgets", pod["metadata"]["namespace"]):
            wanted: Mapping[str, str] = budget["spec"]["selector"]["matchLabels"]
            if wanted.items() <= labels.items():
                yield budget

    def _spend(self, budget: Object, *, dry_run: bool) -> None:
        name, state = budget["metadata"]["name"], budget["status"]
        if state["disruptionsAllowed"] <= 0:
            needs, has = state["desiredHealthy"], state["currentHealthy"]
            told = f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
            details = {"causes": [{"reason": "DisruptionBudget", "message": told}]}
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise Refused(429, "TooManyRequests", message, details)
        if not dry_run:
            state["disruptionsAllowed"] -= 1

    def _later(self, seconds: float, place: tuple[str, str], uid: str) -> None:
        def end() -> None:
            with self.lock:
                if place in self.kept["pods"] and self.kept["pods"][place]["metadata"]["uid"] == uid:
                    del self.kept["pods"][place]

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()


def _with_taint(spec: Object) -> Object:
    """Return a node's spec with the taint that the node controller keeps beside `unschedulable`."""
    taints = [taint for taint in spec.get("taints", []) if taint["key"] != UNSCHEDULABLE_TAINT["key"]]
    cordoned = bool(spec.get("unschedulable"))
    taints += [dict(UNSCHEDULABLE_TAINT)] if cordoned else []
    rest = {key: value for key, value in spec.items() if key not in ("taints", "unschedulable")}
    return rest | ({"taints": taints} if taints else {}) | ({"unschedulable": True} if cordoned else {})
