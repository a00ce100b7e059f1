"""kubectl and scontrol on a controller, through the real envelope; the programs are scripts of the test."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from lab.kube import objects
from lab.kube.cluster import Cluster
from lab.kube.server import KubeServer
from service.app.ask_controller import ask_controller
from service.domain.errors import SourceSilent
from service.domain.node import Controller, Endpoint, ExecutorKind, View
from service.executors.local import LocalExecutor
from service.inventory import slurm
from service.inventory.kubernetes import KubernetesLook
from service.inventory.kubernetes import read_nodes as read_kubernetes
from service.inventory.slurm import SlurmLook
from service.inventory.source import AskController, Found, KubernetesQuestion, SlurmQuestion, SourceAnswer
from tests.inventory.sources import HEAD, instance
from tests.support.world import OneExecutor, RealClock

SLURM_LINE = (
    "NodeName=gpu-01 Arch=x86_64 CPUAlloc=0 AvailableFeatures=(null) Gres=gpu:8 NodeAddr=192.0.2.1 "
    "NodeHostName=gpu-01 Version=22.05.8 OS=Linux 6.1.0 #1 SMP State=of RealMemory=1 State=DOWN*+DRAIN "
    "ThreadsPerCore=1 Partitions=debug,h100 BootTime=None Reason=fan State=IDLE Partitions=evil [root@2026-11-29]"
)


def node(name: str, **parts: object) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"gpu": "H100", "zone": "a", "empty": ""}}, **parts}


FULL = node(
    "gpu-01",
    spec={"providerID": f"aws:///eu-central-1a/{instance(1)}", "unschedulable": True},
    status={
        "addresses": [{"type": "Hostname", "address": "gpu-01"}, {"type": "InternalIP", "address": "192.0.2.1"}],
        "conditions": [{"type": "Ready", "status": "False"}],
        "images": [{"names": ["a"], "sizeBytes": 1}],
    },
)
FOUND = Found(
    "gpu-01",
    instance(1),
    "192.0.2.1",
    ("H100",),
    {"zone": "a", "k8s_name": "gpu-01"},
    {"k8s_ready": "False", "k8s_cordoned": "yes"},
)


@pytest.fixture
def ask() -> Iterator[AskController]:
    executors = OneExecutor(LocalExecutor())
    yield partial(ask_controller, executors=executors, clock=RealClock(), service_id="tests")
    executors.close()


@pytest.fixture
def head(tmp_path: Path) -> Callable[..., Controller]:
    """Give a controller on which a program says what the test wants."""

    def make(program: str, body: str, **env: str) -> Controller:
        file = tmp_path / "bin" / program
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/bash\n{body}\n")
        file.chmod(0o755)
        path = f"{file.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        endpoint = Endpoint("head", ExecutorKind.LOCAL, "head", view=View.PRIVATE, path=path)
        return Controller("head", endpoint, {"DATA": str(tmp_path / "data"), **env})

    return make


def kubernetes(nodes: object) -> SourceAnswer:
    question = KubernetesQuestion(HEAD, None, {"zone": "zone", "no": "empty", "none": "none"}, ("gpu", "none"))
    return read_kubernetes(json.dumps(nodes).encode(), question)


def test_a_node_of_kubernetes_has_only_the_labels_that_are_listed() -> None:
    assert kubernetes({"items": [FULL]}).found == {"gpu-01": FOUND}


@pytest.mark.parametrize(
    "provider", ["", "gce://project/zone/gpu-01", "aws:///eu-central-1a/gpu-01", "aws:///eu-central-1a/fargate-ip-1"]
)
def test_what_is_no_instance_of_aws_has_no_instance(provider: str) -> None:
    said = kubernetes({"items": [node("gpu-01", spec={"providerID": provider})]})

    assert said.found["gpu-01"].instance is None


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"kind": "Status"}', b'{"items": [{"spec": {}}]}', b"[" * 9999])
def test_what_is_no_list_of_nodes_is_no_answer(text: bytes) -> None:
    with pytest.raises(SourceSilent, match="What kubectl says on head is no list of nodes"):
        read_kubernetes(text, KubernetesQuestion(HEAD))


def test_kubectl_runs_with_the_controllers_env_and_the_selector(
    ask: AskController, head: Callable[..., Controller], tmp_path: Path
) -> None:
    (tmp_path / "data").write_text(json.dumps({"items": [FULL]}))
    body = 'printf "%s\\n" "$KUBECONFIG" "$@" >"$DATA.seen"; cat "$DATA"'
    controller = head("kubectl", body, KUBECONFIG="/etc/kube")

    said = KubernetesLook(KubernetesQuestion(controller, "gpu in (a, b)", {"zone": "zone"}, ("gpu",)), ask)()

    seen = (tmp_path / "data.seen").read_text().splitlines()
    assert said.found == {"gpu-01": FOUND}
    assert seen == ["/etc/kube", "--request-timeout=30s", "get", "nodes", "--selector=gpu in (a, b)", "-o", "json"]


def test_a_listing_of_many_megabytes_arrives(
    ask: AskController, head: Callable[..., Controller], tmp_path: Path
) -> None:
    images = [{"names": [f"registry.example/image-{number}@sha256:{number:064x}"]} for number in range(50)]
    nodes = [node(f"gpu-{number:03}", status={"images": images}) for number in range(500)]
    (tmp_path / "data").write_text(json.dumps({"items": nodes}))

    said = KubernetesLook(KubernetesQuestion(head("kubectl", 'cat "$DATA"')), ask)()

    assert len(said.found) == 500


def test_another_cluster_is_refused(ask: AskController, head: Callable[..., Controller]) -> None:
    controller = head("kubectl", "echo 5678", KUBE_SYSTEM_UID="1234")

    with pytest.raises(SourceSilent, match=r"failed \(exit 2\): wrong cluster: its kube-system has the UID 5678"):
        KubernetesLook(KubernetesQuestion(controller), ask)()


def test_a_command_that_fails_is_no_answer_whatever_it_printed(
    ask: AskController, head: Callable[..., Controller]
) -> None:
    controller = head("kubectl", "echo '{\"items\": []}'; echo 'the server was unable' >&2; exit 1")

    with pytest.raises(SourceSilent, match=r"on the controller head failed \(exit 1\): the server was unable"):
        KubernetesLook(KubernetesQuestion(controller), ask)()


def test_a_command_that_hangs_is_ended(ask: AskController, head: Callable[..., Controller]) -> None:
    controller = head("kubectl", "sleep 600")

    with pytest.raises(SourceSilent, match="on the controller head did not end within 1 s"):
        ask(controller, "kubectl get nodes", timedelta(seconds=1))


def test_a_listing_that_is_cut_is_no_answer(ask: AskController, head: Callable[..., Controller]) -> None:
    controller = head("kubectl", "head -c 3000000 /dev/zero")

    with pytest.raises(SourceSilent, match="said more than is kept"):
        ask(controller, "kubectl", timedelta(seconds=20))


def test_a_controller_that_is_not_reached_is_no_answer(ask: AskController) -> None:
    away = Controller("head", Endpoint("head", ExecutorKind.LOCAL, "head", view=View.BOOT))

    with pytest.raises(SourceSilent, match="Nothing was learned on the controller head: "):
        SlurmLook(SlurmQuestion(away), ask)()


def test_a_node_of_slurm_has_partitions_as_pools_and_free_text_says_nothing(
    ask: AskController, head: Callable[..., Controller], tmp_path: Path
) -> None:
    (tmp_path / "data").write_text(f"{SLURM_LINE}\nNodeName=gpu-02 State=IDLE InstanceId={instance(2)}\n")

    said = SlurmLook(SlurmQuestion(head("scontrol", '[ "$*" = "show node -o" ] && cat "$DATA"')), ask)()

    assert said.found == {
        "gpu-01": Found(
            "gpu-01",
            None,
            "192.0.2.1",
            ("debug", "h100"),
            {"slurm_name": "gpu-01"},
            {"slurm_state": "DOWN+DRAIN+NOT_RESPONDING"},
        ),
        "gpu-02": Found("gpu-02", instance(2), "gpu-02", (), {"slurm_name": "gpu-02"}, {"slurm_state": "IDLE"}),
    }


@pytest.mark.parametrize(
    ("state", "flags"),
    [
        ("IDLE", {"IDLE"}),
        ("MIXED+DRAIN+REBOOT_REQUESTED", {"MIXED", "DRAIN", "REBOOT_REQUESTED"}),
        ("IDLE~", {"IDLE", "POWERED_DOWN"}),
        ("DOWN$*", {"DOWN", "MAINTENANCE", "NOT_RESPONDING"}),
        ("?", set()),
    ],
)
def test_a_state_of_slurm_is_a_set_of_flags(state: str, flags: set[str]) -> None:
    assert slurm.flags(state) == flags


@pytest.mark.parametrize("text", [b"slurm_load_node error: Unable to contact slurm controller\n", b"NodeName=a\nx\n"])
def test_what_is_no_list_of_slurm_nodes_is_no_answer(text: bytes) -> None:
    with pytest.raises(SourceSilent, match="What scontrol says on head is no list of nodes"):
        slurm.read_nodes(text, SlurmQuestion(HEAD))


def test_the_real_kubectl_is_asked_and_another_cluster_refused(ask: AskController, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl (Debian: kubernetes-client)")
    cluster = Cluster()
    for name, gpu in (("gpu-01", "H100"), ("head-01", "none")):
        cluster.add("nodes", objects.node(name, boot_id="b", labels={"gpu": gpu}))
    endpoint = Endpoint("head", ExecutorKind.LOCAL, "head", view=View.PRIVATE, path=os.environ["PATH"])
    with KubeServer(tmp_path / "kube", cluster) as server:
        env = {"KUBECONFIG": str(server.kubeconfig), "KUBE_SYSTEM_UID": cluster.uid}
        right = KubernetesQuestion(Controller("head", endpoint, env), "gpu=H100", {}, ("gpu",))
        said = KubernetesLook(right, ask)()
        wrong = replace(right, controller=Controller("head", endpoint, {**env, "KUBE_SYSTEM_UID": "x"}))
        with pytest.raises(SourceSilent, match="wrong cluster"):
            KubernetesLook(wrong, ask)()

    assert {name: (one.pools, one.attributes) for name, one in said.found.items()} == {
        "gpu-01": (("H100",), {"k8s_name": "gpu-01"})
    }
