"""The stand-in cluster with the rights of the documentation, and the controller's scripts played without a service."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.kube import objects
from lab.kube.cluster import Cluster
from lab.kube.objects import Object, Owner, PodSpec
from lab.kube.permissions import Permissions
from lab.kube.server import KubeServer
from service.app.load_runbooks import RunbookFolder
from service.domain.plan import check_params, param_text
from service.domain.script import ScriptKind, render
from tests.support.world import RUNBOOKS

RUNBOOK, NAME = "drain-and-reboot-kubernetes", "gpu-01"
RBAC = Path("docs/kubernetes-rbac.yaml")
TRAINING = Owner("StatefulSet", "train")
#: Only stops a hang.
SECONDS = 600


def permissions(role: str = "unstick-drain") -> Permissions:
    """Return the rights that a role of the documentation gives."""
    known = {one["metadata"]["name"]: one["rules"] for one in yaml.safe_load_all(RBAC.read_text()) if "rules" in one}
    return Permissions(known[role])


@contextmanager
def cluster_of(folder: Path, boot_id: str) -> Iterator[KubeServer]:
    """Give a cluster with one node, on which are a DaemonSet's pod and a static one."""
    cluster = Cluster()
    cluster.add("nodes", objects.node(NAME, boot_id=boot_id))
    cluster.add_pod(PodSpec("exporter", namespace="gpu-operator", owner=Owner("DaemonSet", "exporter")), NAME)
    cluster.add_pod(PodSpec("proxy", namespace="kube-system", mirror=True), NAME)
    with KubeServer(folder / "kube", cluster, permissions=permissions()) as server:
        yield server


def environment(server: KubeServer) -> dict[str, str]:
    """Return the env of the controller in the inventory."""
    return {"KUBECONFIG": str(server.kubeconfig), "KUBE_SYSTEM_UID": server.cluster.uid}


def found(cluster: Cluster) -> Object:
    """Return all that this runbook could change in the cluster."""
    known = cluster.node(NAME)
    return {"spec": known["spec"], "notes": known["metadata"]["annotations"], "pods": cluster.pods_on(NAME)}


@dataclass(frozen=True)
class Said:
    """How a script ended."""

    code: int
    output: str
    targets: tuple[str, ...]


@dataclass
class Controller:
    """Plays the scripts of the controller, one by one."""

    folder: Path
    server: KubeServer
    run_id: str = "run-1"
    boot_id: str = "boot-1"
    last_boot_id: str = "boot-1"
    #: The env's KUBE_SYSTEM_UID, where it is another than the cluster's.
    expected_uid: str | None = None

    def play(self, step: str, kind: ScriptKind, targets: tuple[str, ...] = (), **params: object) -> Said:
        """Run one script with the parameters as a plan would give them."""
        runbook, _ = RunbookFolder(RUNBOOKS).get(RUNBOOK)
        body = runbook.step(step).script(kind)
        assert body is not None
        given = {f"PARAM_{name.upper()}": param_text(value) for name, value in check_params(runbook, params).items()}
        names = {"NODE_NAME": NAME, "NODE_K8S_NAME": NAME}
        script = render(prelude=runbook.prelude_of(runbook.step(step)), body=body, environment=given | names)
        file = self.folder / "targets"
        file.write_text("".join(f"{target}\n" for target in targets))
        envelope = {"RUN_ID": self.run_id, "BOOT_ID": self.boot_id, "LAST_BOOT_ID": self.last_boot_id}
        envelope["TARGETS"] = str(file)
        own = environment(self.server)
        if self.expected_uid is not None:
            own["KUBE_SYSTEM_UID"] = self.expected_uid
        said = subprocess.run(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
            | own
            | {f"UNSTICK_{name}": value for name, value in envelope.items()},
            cwd="/",
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Said(said.returncode, said.stdout, tuple(file.read_text().splitlines()))
