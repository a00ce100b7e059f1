"""A survey with the real kubectl against the stand-in cluster, with the rights of the documentation."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.kube import objects
from lab.kube.cluster import Cluster
from lab.kube.merging import STRATEGIC
from lab.kube.objects import Owner, PodSpec
from lab.kube.permissions import Permissions
from lab.kube.server import KubeServer
from lab.needs import need_kubectl
from service.app.survey_node import NodeSurveyor
from service.domain.node import Controller, Endpoint, ExecutorKind, Inventory, Node, View
from service.domain.survey import Kind, Occupant, Part, Sight, Survey, could_not_look, seen
from service.executors.local import LocalExecutor
from tests.cures.kube_stage import NAME, TRAINING, environment, permissions
from tests.support.world import OneExecutor, RealClock

HERE = Endpoint("head", ExecutorKind.LOCAL, "head", view=View.PRIVATE, path=os.environ["PATH"])
NODE = Node(NAME, HERE, controller="k8s", attributes={"k8s_name": NAME})
CORDONED = {"spec": {"unschedulable": True}}
OURS = {"metadata": {"annotations": {"unstick/cordoned-by": "run-1\nend"}}, **CORDONED}
Ask = Callable[..., Survey]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    need_kubectl()
    cluster = Cluster()
    folder = tmp_path_factory.mktemp("kube")
    with KubeServer(folder, cluster, permissions=permissions("unstick-survey")) as started:
        yield started


@pytest.fixture
def cluster(server: KubeServer) -> Cluster:
    """Give the cluster with one schedulable node, a pod of a training, and a DaemonSet."""
    cluster = server.cluster
    with cluster.lock:
        for resource in ("nodes", "pods", "daemonsets"):
            cluster.kept[resource].clear()
    cluster.add("nodes", objects.node(NAME, boot_id="boot-1"))
    cluster.add_pod(PodSpec("train-0", owner=TRAINING), NAME)
    cluster.add_pod(PodSpec("kured-x", namespace="kube-system", owner=Owner("DaemonSet", "kured")), NAME)
    cluster.add_pod(PodSpec("elsewhere"), "gpu-02")
    return cluster


@pytest.fixture
def ask(server: KubeServer) -> Iterator[Ask]:
    """Give who asks, with the env of the controller as a test wants it."""
    executors = OneExecutor(LocalExecutor())

    def look(**env: str) -> Survey:
        controller = Controller("k8s", HERE, environment(server) | env)
        surveyor = NodeSurveyor(executors, RealClock(), service_id="tests")
        return surveyor.survey(NODE, Inventory({NAME: NODE}, {"k8s": controller}))

    yield look
    executors.close()


def lock(cluster: Cluster, node: str) -> None:
    """Let kured take its lock for a node, as its annotation stands there."""
    value = json.dumps({"nodeID": node, "metadata": {"unschedulable": False}, "created": objects.now(), "TTL": 0})
    change = {"metadata": {"annotations": {"weave.works/kured-node-lock": value}}}
    cluster.patch("daemonsets", ("kube-system", "kured"), change, kind=STRATEGIC)


def owners(survey: Survey) -> Part:
    return survey.part(Kind.OWNERS)


def test_what_runs_on_a_node_is_seen_with_just_the_rights_of_its_role(
    server: KubeServer, cluster: Cluster, ask: Ask
) -> None:
    survey = ask()

    pods = survey.part(Kind.PODS)
    assert owners(survey) == seen(())
    assert [(one.name, one.facts["owner"], one.apart) for one in pods.found] == [
        ("ml/train-0", "StatefulSet/train", ""),
        ("kube-system/kured-x", "DaemonSet/kured", "DaemonSet"),
    ]
    assert survey.part(Kind.JOBS).sight is Sight.NOT_ASKED
    assert server.permissions is not None
    assert server.permissions.used == server.permissions.every()


def test_a_cordon_of_others_is_seen_and_our_own_is_none_of_theirs(cluster: Cluster, ask: Ask) -> None:
    cluster.patch("nodes", ("", NAME), CORDONED, kind=STRATEGIC)
    theirs = owners(ask())

    cluster.patch("nodes", ("", NAME), OURS, kind=STRATEGIC)
    ours = owners(ask())

    assert theirs == seen([Occupant("cordoned by others")])
    assert ours == seen([Occupant("cordoned by unstick", apart="unstick's own cordon")])


def test_the_lock_of_kured_is_seen_for_the_node_that_it_names(cluster: Cluster, ask: Ask) -> None:
    lock(cluster, NAME)
    here = owners(ask())

    lock(cluster, "gpu-02")
    elsewhere = owners(ask())

    assert here == seen([Occupant("kured has the lock for it", {"DaemonSet": "kube-system/kured"})])
    assert elsewhere == seen(())


def test_without_the_right_to_read_daemon_sets_nobody_knows_whose_the_node_is(
    server: KubeServer, cluster: Cluster, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = permissions("unstick-survey")
    fewer = [rule for rule in known._rules if rule["resources"] != ["daemonsets"]]
    monkeypatch.setattr(server, "permissions", Permissions(fewer))

    survey = ask()

    assert owners(survey).sight is Sight.COULD_NOT_LOOK
    assert owners(survey).why.startswith("kured's lock: 0 daemonsets Error from server (Forbidden)")
    assert survey.part(Kind.PODS).count == 1


def test_another_cluster_than_the_one_meant_tells_nothing(server: KubeServer, cluster: Cluster, ask: Ask) -> None:
    survey = ask(KUBE_SYSTEM_UID="another")

    why = could_not_look(f"wrong cluster: its kube-system has the UID {cluster.uid}")
    assert (owners(survey), survey.part(Kind.PODS)) == (why, why)


def test_a_cluster_that_is_not_there_is_could_not_look(tmp_path: Path, cluster: Cluster, ask: Ask) -> None:
    survey = ask(KUBECONFIG=str(tmp_path / "none"))

    assert owners(survey).sight is survey.part(Kind.PODS).sight is Sight.COULD_NOT_LOOK
