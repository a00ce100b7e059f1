"""The stand-in of the API server, driven by the real kubectl and by plain HTTP."""

import json
import os
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from lab.kube import objects
from lab.kube.cluster import Cluster
from lab.kube.faults import Fault
from lab.kube.kubelet import Kubelet
from lab.kube.merging import STRATEGIC, patched
from lab.kube.objects import Owner, PodSpec, budget
from lab.kube.permissions import Permissions
from lab.kube.server import KubeServer
from lab.needs import need_kubectl
from lab.process import wait_until

TRAINING = Owner("StatefulSet", "train")
TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@dataclass
class Place:
    """A cluster with one node, and hands for it."""

    folder: Path
    server: KubeServer

    @property
    def cluster(self) -> Cluster:
        return self.server.cluster

    def kubectl(self, *words: str) -> tuple[int, str]:
        """Run kubectl; return its exit code and all that it printed."""
        need_kubectl()
        environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(self.server.kubeconfig), "HOME": str(self.folder)}
        said = subprocess.run(
            ["kubectl", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
            timeout=120,
            check=False,
        )
        return said.returncode, said.stdout

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send one request with the token."""
        trusted = ssl.create_default_context(cafile=str(self.server.kubeconfig.parent / "server.crt"))
        given = {"Authorization": f"Bearer {self.server.token}"} | headers
        with httpx.Client(verify=trusted, base_url=f"https://127.0.0.1:{self.server.port}", headers=given) as client:
            return client.request(method, path, content=None if body is None else json.dumps(body))

    def evict(self, pod: str, *, dry_run: bool = False) -> tuple[int, str]:
        """Ask for an eviction; return code and message."""
        body: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        body |= {"deleteOptions": {"dryRun": ["All"]}} if dry_run else {}
        answer = self.ask("POST", f"/api/v1/namespaces/ml/pods/{pod}/eviction", body)
        return answer.status_code, answer.json().get("message", "")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    cluster = Cluster()
    cluster.add("nodes", objects.node("gpu-01", boot_id="boot-1"))
    with KubeServer(tmp_path / "kube", cluster) as server:
        yield Place(tmp_path, server)


def test_kubectl_cordons_shows_and_uncordons(place: Place) -> None:
    cordoned = place.kubectl("cordon", "gpu-01"), place.kubectl("get", "nodes", "--no-headers")
    taints = place.cluster.node("gpu-01")["spec"]["taints"]
    uncordoned = place.kubectl("uncordon", "gpu-01")

    assert [said[0] for said in (*cordoned, uncordoned)] == [0, 0, 0]
    assert cordoned[1][1].split() == ["gpu-01", "Ready,SchedulingDisabled", "<none>", "1m", "v1.31.0"]
    assert taints == [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    assert place.cluster.node("gpu-01")["spec"] == {"providerID": "lab:///gpu-01"}


def test_kubectl_drains_by_eviction_and_leaves_what_belongs_to_the_node(place: Place) -> None:
    place.cluster.add_pod(PodSpec("train-0", owner=TRAINING), "gpu-01")
    place.cluster.add_pod(PodSpec("train-1", owner=TRAINING), "gpu-02")
    place.cluster.add_pod(PodSpec("exporter", namespace="gpu", owner=Owner("DaemonSet", "exporter")), "gpu-01")
    place.cluster.add_pod(PodSpec("proxy", namespace="kube-system", mirror=True), "gpu-01")

    code, said = place.kubectl("drain", "gpu-01", "--ignore-daemonsets", "--timeout=30s")

    assert (code, place.cluster.pods_on("gpu-01")) == (0, ["gpu/exporter", "kube-system/proxy"]), said
    assert place.server.seen("POST") == ["POST /api/v1/namespaces/ml/pods/train-0/eviction 201"]
    assert (place.server.seen("DELETE"), place.cluster.pods_on("gpu-02")) == ([], ["ml/train-1"])


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (PodSpec("mount"), "--force"),
        (PodSpec("scratch", owner=TRAINING, empty_dir=True), "--delete-emptydir-data"),
        (PodSpec("exporter", owner=Owner("DaemonSet", "exporter")), "--ignore-daemonsets"),
    ],
)
def test_kubectl_refuses_what_would_lose_more_and_still_has_cordoned(place: Place, spec: PodSpec, told: str) -> None:
    place.cluster.add_pod(spec, "gpu-01")

    code, said = place.kubectl("drain", "gpu-01", "--timeout=5s")

    assert (code, told in said) == (1, True), said
    assert (place.cluster.node("gpu-01")["spec"]["unschedulable"], place.server.seen("POST")) == (True, [])


def test_an_eviction_answers_as_the_budgets_allow(place: Place) -> None:
    for name in ("free", "blocked", "twice"):
        place.cluster.add_pod(PodSpec(name, owner=TRAINING, labels={"app": name}), "gpu-01")
    place.cluster.add("poddisruptionbudgets", budget("blocked", labels={"app": "blocked"}, allowed=0))
    for name in ("one", "two"):
        place.cluster.add("poddisruptionbudgets", budget(name, labels={"app": "twice"}, allowed=1))

    told = [place.evict("free", dry_run=True), place.evict("free"), place.evict("blocked"), place.evict("twice")]
    wait_until(lambda: "ml/free" not in place.cluster.pods_on("gpu-01"), "the pod has ended")

    budget_words = "Cannot evict pod as it would violate the pod's disruption budget."
    assert told == [(201, ""), (201, ""), (429, budget_words), (500, TWO_BUDGETS)]
    assert place.evict("free") == (404, 'pods "free" not found')


def test_a_budget_is_spent_by_evictions_and_not_by_their_dry_runs(place: Place) -> None:
    for name in ("a", "b"):
        place.cluster.add_pod(PodSpec(name, owner=TRAINING, labels={"app": "x"}), "gpu-01")
    place.cluster.add("poddisruptionbudgets", budget("x", labels={"app": "x"}, allowed=1))

    told = [place.evict("a", dry_run=True), place.evict("b", dry_run=True), place.evict("a"), place.evict("b")]

    assert [code for code, _ in told] == [201, 201, 201, 429]


def test_a_pod_whose_processes_do_not_end_is_terminating_until_the_node_boots(place: Place) -> None:
    boots = ["boot-1"]
    place.cluster.add_pod(PodSpec("train-0", owner=TRAINING, grace=7, ends_after=None), "gpu-01")
    place.evict("train-0")
    stays = place.cluster.get("pods", "ml", "train-0")["metadata"]["deletionGracePeriodSeconds"]

    with Kubelet(place.cluster, "gpu-01", boot_id=lambda: boots[-1], every=0.02):
        boots.append("boot-2")
        wait_until(lambda: place.cluster.pods_on("gpu-01") == [], "the kubelet has told of the boot")
        wait_until(lambda: _ready(place.cluster)["status"] == "True", "it is Ready")

    assert stays == 7
    assert place.cluster.node("gpu-01")["status"]["nodeInfo"]["bootID"] == "boot-2"
    assert _ready(place.cluster)["lastTransitionTime"] > "2026-01-01T00:00:00Z"


def _ready(cluster: Cluster) -> dict[str, str]:
    condition: dict[str, str] = cluster.node("gpu-01")["status"]["conditions"][0]
    return condition


def test_only_what_the_role_names_is_permitted_and_only_with_the_token(tmp_path: Path) -> None:
    role = Permissions([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"], "resourceNames": ["gpu-01"]}])
    cluster = Cluster()
    cluster.add("nodes", objects.node("gpu-01", boot_id="boot-1"))
    with KubeServer(tmp_path / "kube", cluster, permissions=role) as server:
        place = Place(tmp_path, server)
        paths = ["/api/v1/nodes/gpu-01", "/api/v1/nodes/gpu-02", "/api/v1/nodes", "/api/v1/pods"]
        codes = [place.ask("GET", path).status_code for path in paths]
        patch = place.ask("PATCH", paths[0], {}, **{"Content-Type": STRATEGIC}).status_code
        stranger = place.ask("GET", paths[0], Authorization="Bearer x").status_code

    assert (codes, patch, stranger) == ([200, 403, 403, 403], 403, 401)
    assert role.used == role.every()


def test_lists_are_selected_and_paged(place: Place) -> None:
    for number in range(5):
        place.cluster.add_pod(PodSpec(f"p{number}", labels={"app": "x" if number % 2 else "y"}), "gpu-01")
    place.cluster.add_pod(PodSpec("p9", labels={"app": "x"}), "gpu-02")

    query = "/api/v1/pods?fieldSelector=spec.nodeName%3Dgpu-01&labelSelector=app%3Dy&limit=2"
    first = place.ask("GET", query).json()
    second = place.ask("GET", f"{query}&continue={first['metadata']['continue']}").json()

    names = [[item["metadata"]["name"] for item in page["items"]] for page in (first, second)]
    assert (names, second["metadata"].get("continue")) == ([["p0", "p2"], ["p4"]], None)


def test_a_patch_merges_maps_and_conditions_and_refuses_an_old_version(place: Place) -> None:
    known = place.cluster.node("gpu-01")
    merged = patched(
        STRATEGIC,
        {"a": {"b": 1, "c": 2}, "conditions": [{"type": "Ready", "status": "True"}], "taints": [1, 2]},
        {"a": {"b": None, "d": 3}, "conditions": [{"type": "Ready", "status": "False"}, {"type": "X"}], "taints": [3]},
    )
    stale = {"metadata": {"resourceVersion": "1"}}
    conflict = place.ask("PATCH", "/api/v1/nodes/gpu-01", stale, **{"Content-Type": STRATEGIC})
    other = place.ask("PATCH", "/api/v1/nodes/gpu-01", {}, **{"Content-Type": "text/plain"})

    assert merged == {
        "a": {"c": 2, "d": 3},
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "X"}],
        "taints": [3],
    }
    assert (conflict.status_code, other.status_code) == (409, 400)
    assert place.cluster.node("gpu-01") == known


def _cut(place: Place) -> object:
    with pytest.raises(httpx.RemoteProtocolError):
        place.evict("train-0")
    return place.cluster.get("pods", "ml", "train-0")["metadata"].get("deletionTimestamp") is not None


def _throttled(place: Place) -> object:
    answer = place.ask("POST", "/api/v1/namespaces/ml/pods/train-0/eviction", {})
    return answer.status_code, answer.headers["Retry-After"], place.evict("train-0")[0]


@pytest.mark.parametrize(
    ("fault", "look", "seen"),
    [
        (Fault("POST", ".*/eviction", cut=True, after=True), _cut, True),
        (Fault("POST", ".*/eviction", cut=True), _cut, False),
        (Fault("POST", ".*/eviction", 429, "TooManyRequests", retry_after=3), _throttled, (429, "3", 201)),
    ],
)
def test_a_fault_strikes_once(place: Place, fault: Fault, look: Callable[[Place], object], seen: object) -> None:
    place.cluster.add_pod(PodSpec("train-0", owner=TRAINING, ends_after=None), "gpu-01")
    place.server.faults.append(fault)

    assert look(place) == seen
