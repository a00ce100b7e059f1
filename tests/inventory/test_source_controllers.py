"""kubectl and scontrol on a controller, through the real envelope; the programs are scripts of the test."""

import base64
import gzip
import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from lab.kube import objects
from lab.kube.cluster import Cluster
from lab.kube.server import KubeServer
from lab.needs import need_kubectl
from service.app.ask_controller import ask_controller
from service.domain.errors import SourceSilent
from service.domain.node import Confine, Controller, Endpoint, ExecutorKind, View
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


#: What is asked by default, and so the labels of a node: zone, empty, none and gpu.
ASKED = KubernetesQuestion(HEAD, None, {"zone": "zone", "no": "empty", "none": "none"}, ("gpu", "none"))
#: What is kept of a stream for certain: seven segments but a byte (service/executors/node_runner.sh).
KEPT_BYTES = 7 * 64 * 1024 - 1
Row = tuple[str, ...]


def listing(*nodes: Row) -> str:
    """Write nodes as kubectl does by the template: name, ready, cordoned, provider, address and labels, by columns."""
    return "".join(f"{line}\n" for line in (*itertools.chain(*zip(*nodes, strict=True)), f"{len(nodes)} nodes"))


def row(provider: str = "", address: str = "") -> Row:
    return ("gpu-01", "True", "no", provider, address, "", "", "", "")


FULL = ("gpu-01", "False", "yes", f'"aws:///eu-central-1a/{instance(1)}"', '"192.0.2.1"', "a", "", "", "H100")
LINES = "\n".join(FULL)
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
        endpoint = Endpoint("head", ExecutorKind.LOCAL, "head", view=View.PRIVATE, path=path, confine=Confine.OFF)
        return Controller("head", endpoint, {"DATA": str(tmp_path / "data"), **env})

    return make


#: Places of a node, and what cannot stand there.
WRONG = (
    *((place, "<no value>") for place in range(len(FULL))),
    *((place, "Error from server") for place in range(len(FULL))),
    *((place, "") for place in range(3)),
    *((place, said) for place in (3, 4) for said in ("192.0.2.1", '"', '"""', '"\\"', '"\t"')),
)


def kubernetes(*nodes: Row) -> SourceAnswer:
    return read_kubernetes(listing(*nodes).encode(), ASKED)


def test_a_node_of_kubernetes_has_only_the_labels_that_are_listed() -> None:
    assert kubernetes(FULL).found == {"gpu-01": FOUND}


@pytest.mark.parametrize(
    "provider",
    [
        "",
        "gce://project/zone/gpu-01",
        "aws:///eu-central-1a/gpu-01",
        "aws:///eu-central-1a/fargate-ip-1",
        rf"aws:///\"/\t/{instance(1)}\n",
    ],
)
def test_what_is_no_instance_of_aws_has_no_instance(provider: str) -> None:
    said = kubernetes(row(provider and f'"{provider}"'))

    assert said.found["gpu-01"].instance is None


def test_an_address_that_had_to_be_escaped_is_none() -> None:
    said = kubernetes(row(address=r'"192.0.2.1\n"'))

    assert said.found["gpu-01"].address is None


def test_a_cluster_without_nodes_is_an_answer() -> None:
    assert kubernetes() == SourceAnswer()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "No resources found\n",
        "Error from server: etcdserver: request timed out\n",
        f"{LINES}\n",
        f"{LINES}\n2 nodes\n",
        f"{LINES}\n{LINES}\n1 nodes\n",
        f"{LINES}\n1 nodes",
        f"{LINES}\n1 nodes\n\n",
        f"{LINES}\n1 nodes\nError from server: etcdserver: request timed out\n",
        f"Error from server\n{LINES}\n1 nodes\n",
        listing(FULL[:-1]),
        listing((*FULL, "H200")),
        *(listing((*FULL[:place], said, *FULL[place + 1 :])) for place, said in WRONG),
    ],
)
def test_what_is_no_whole_list_of_nodes_is_no_answer(text: str) -> None:
    with pytest.raises(SourceSilent, match="What kubectl says on head is no list of nodes, or not the whole"):
        read_kubernetes(text.encode(), ASKED)


def test_a_listing_that_ends_anywhere_before_its_end_is_no_answer() -> None:
    text = listing(FULL, ("gpu-02", *FULL[1:])).encode()

    for end in range(len(text)):
        with pytest.raises(SourceSilent):
            read_kubernetes(text[:end], ASKED)


def test_kubectl_runs_with_the_controllers_env_and_the_selector(
    ask: AskController, head: Callable[..., Controller], tmp_path: Path
) -> None:
    (tmp_path / "data").write_text(listing(FULL))
    body = 'printf "%s\\0" "$KUBECONFIG" "$@" >"$DATA.seen"; cat "$DATA"'
    controller = head("kubectl", body, KUBECONFIG="/etc/kube")

    said = KubernetesLook(replace(ASKED, controller=controller, selector="gpu in (a, b)"), ask)()

    *seen, output, end = (tmp_path / "data.seen").read_text().split("\0")
    assert said.found == {"gpu-01": FOUND}
    assert seen == ["/etc/kube", "--request-timeout=30s", "get", "nodes", "--selector=gpu in (a, b)"]
    assert (output.startswith("--output=go-template={{"), end) == (True, "")


def test_a_listing_of_ten_thousand_nodes_arrives(
    ask: AskController, head: Callable[..., Controller], tmp_path: Path
) -> None:
    text = listing(*_drawn(10_000))
    (tmp_path / "data").write_text(text)

    said = KubernetesLook(replace(ASKED, controller=head("kubectl", 'cat "$DATA"')), ask)()

    assert len(base64.b64encode(gzip.compress(text.encode(), 9))) < KEPT_BYTES
    assert len(said.found) == 10_000


def _drawn(count: int) -> Iterator[Row]:
    """Give nodes as AWS has them, with a label that 16 of them share; what differs from one to the next is drawn."""
    chance = random.Random(1)
    racks = [f"nn-{chance.getrandbits(68):017x}" for _ in range(count // 16)]
    for number in range(count):
        zone = f"ap-southeast-2{chance.choice('abc')}"
        address = f"10.{number // 256}.{number % 256}.{chance.randrange(256)}"
        yield (
            f"ip-{address.replace('.', '-')}.ap-southeast-2.compute.internal",
            *chance.choice((("True", "no"), ("True", "yes"), ("Unknown", "no"))),
            f'"aws:///{zone}/i-{chance.getrandbits(68):017x}"',
            f'"{address}"',
            *(zone, chance.choice(racks), "", "NVIDIA-H100-80GB-HBM3"),
        )


def test_another_cluster_is_refused(ask: AskController, head: Callable[..., Controller]) -> None:
    controller = head("kubectl", "echo 5678", KUBE_SYSTEM_UID="1234")

    with pytest.raises(SourceSilent, match=r"failed \(exit 2\): wrong cluster: its kube-system has the UID 5678"):
        KubernetesLook(KubernetesQuestion(controller), ask)()


def test_a_command_that_fails_is_no_answer_whatever_it_printed(
    ask: AskController, head: Callable[..., Controller]
) -> None:
    controller = head("kubectl", "echo '0 nodes'; echo 'the server was unable' >&2; exit 1")

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


def _bare(name: str, **parts: object) -> dict[str, object]:
    """Return a node with nothing that it may lack."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": objects.metadata(name), "spec": {}, "status": {}, **parts}


def _addresses(**named: str) -> dict[str, object]:
    return {"addresses": [{"type": kind, "address": address} for kind, address in named.items()]}


def _mixed() -> Cluster:
    """Return a node that tells all of itself, one that tells what would break a line, and two that lack something."""
    cluster = Cluster()
    full = objects.node("gpu-01", boot_id="b", labels={"gpu": "H100", "zone": "a", "empty": ""})
    full["spec"] = {"providerID": f"aws:///eu-central-1a/{instance(1)}", "unschedulable": True}
    full["status"] |= _addresses(Hostname="gpu-01", InternalDNS="gpu-01.internal", InternalIP="192.0.2.1")
    full["status"]["conditions"] = [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": "False"}]
    odd = '192.0.2.2"\t\n1 nodes\n'
    cluster.add("nodes", full)
    cluster.add("nodes", _bare("gpu-02", spec={"providerID": f"{odd}\\"}, status=_addresses(InternalIP=odd)))
    cluster.add("nodes", _bare("gpu-03", status=_addresses(Hostname="gpu-03", InternalDNS="gpu-03.internal")))
    cluster.add("nodes", _bare("gpu-04"))
    return cluster


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[tuple[Cluster, Controller]]:
    """Give a cluster, and a controller with the real kubectl for it."""
    need_kubectl()
    cluster = _mixed()
    endpoint = Endpoint("head", ExecutorKind.LOCAL, "head", view=View.PRIVATE, path=os.environ["PATH"], keeps_user=True)
    with KubeServer(tmp_path / "kube", cluster) as server:
        env = {"KUBECONFIG": str(server.kubeconfig), "KUBE_SYSTEM_UID": cluster.uid}
        yield cluster, Controller("head", endpoint, env)


def test_the_real_kubectl_tells_of_each_node_what_is_read(ask: AskController, kube: tuple[Cluster, Controller]) -> None:
    said = KubernetesLook(replace(ASKED, controller=kube[1]), ask)()

    bare = {"k8s_ready": "Unknown", "k8s_cordoned": "no"}
    told = {"gpu-01": FOUND} | {
        name: Found(name, None, address, (), {"k8s_name": name}, bare)
        for name, address in [("gpu-02", None), ("gpu-03", "gpu-03.internal"), ("gpu-04", None)]
    }
    assert said == SourceAnswer(told)


@pytest.mark.parametrize(("selector", "names"), [("gpu=H100", ["gpu-01"]), ("gpu=none", [])])
def test_the_real_kubectl_selects(
    ask: AskController, kube: tuple[Cluster, Controller], selector: str, names: list[str]
) -> None:
    said = KubernetesLook(KubernetesQuestion(kube[1], selector), ask)()

    assert list(said.found) == names


def test_the_real_kubectl_refuses_another_cluster(ask: AskController, kube: tuple[Cluster, Controller]) -> None:
    wrong = replace(kube[1], environment={**kube[1].environment, "KUBE_SYSTEM_UID": "x"})

    with pytest.raises(SourceSilent, match="wrong cluster"):
        KubernetesLook(KubernetesQuestion(wrong), ask)()
