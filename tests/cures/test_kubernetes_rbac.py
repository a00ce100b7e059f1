"""docs/kubernetes-rbac.yaml: it is what the API takes, and gives no right that a drain or a source does not need."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from lab.kube import objects
from lab.kube.cluster import Cluster
from lab.kube.server import KubeServer
from lab.needs import need_kubectl
from service.app.ask_controller import ask_controller
from service.domain.errors import SourceSilent
from service.domain.node import Controller, Endpoint, ExecutorKind, View
from service.executors.local import LocalExecutor
from service.inventory.kubernetes import KubernetesLook
from service.inventory.source import AskController, KubernetesQuestion
from tests.cures.kube_stage import RBAC, environment, permissions
from tests.support.world import OneExecutor, RealClock

ROLE_KEYS = {"apiGroups", "resources", "verbs", "resourceNames"}
DOCUMENTS = list(yaml.safe_load_all(RBAC.read_text()))
GROUP = "rbac.authorization.k8s.io/v1"


@pytest.fixture
def ask() -> Iterator[AskController]:
    executors = OneExecutor(LocalExecutor())
    yield partial(ask_controller, executors=executors, clock=RealClock(), service_id="tests")
    executors.close()


def question_of(server: KubeServer) -> KubernetesQuestion:
    here = Endpoint("head", ExecutorKind.LOCAL, "head", view=View.PRIVATE, path=os.environ["PATH"], keeps_user=True)
    return KubernetesQuestion(Controller("head", here, environment(server)), "gpu=H100")


def cluster() -> Cluster:
    made = Cluster()
    made.add("nodes", objects.node("gpu-01", boot_id="b", labels={"gpu": "H100"}))
    return made


def test_the_documents_have_the_kinds_and_names_of_the_api() -> None:
    told = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in DOCUMENTS]

    assert told == [
        ("v1", "Namespace", "unstick"),
        ("v1", "ServiceAccount", "unstick"),
        (GROUP, "ClusterRole", "unstick-drain"),
        (GROUP, "ClusterRoleBinding", "unstick-drain"),
        (GROUP, "ClusterRole", "unstick-survey"),
        (GROUP, "ClusterRoleBinding", "unstick-survey"),
        ("v1", "ServiceAccount", "unstick-inventory"),
        (GROUP, "ClusterRole", "unstick-inventory"),
        (GROUP, "ClusterRoleBinding", "unstick-inventory"),
    ]


@pytest.mark.parametrize(
    ("role", "account"), [("unstick-drain", "unstick"), ("unstick-survey", "unstick"), ("unstick-inventory",) * 2]
)
def test_a_role_is_bound_to_its_own_service_account_alone(role: str, account: str) -> None:
    rules, binding = [one for one in DOCUMENTS if one["metadata"]["name"] == role and one["apiVersion"] == GROUP]

    assert all(set(rule) <= ROLE_KEYS and set(rule) >= ROLE_KEYS - {"resourceNames"} for rule in rules["rules"])
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "unstick"}]


def test_a_drain_is_given_neither_deleting_nor_secrets_nor_exec() -> None:
    rights = permissions("unstick-drain").every()

    assert {verb for _, verb in rights} == {"get", "list", "patch", "create"}
    assert {resource for resource, _ in rights} == {
        "nodes",
        "pods",
        "pods/eviction",
        "daemonsets",
        "poddisruptionbudgets",
        "namespaces",
    }


def test_a_source_of_nodes_asks_for_just_the_rights_of_its_role(ask: AskController, tmp_path: Path) -> None:
    need_kubectl()
    with KubeServer(tmp_path / "kube", cluster(), permissions=permissions("unstick-inventory")) as server:
        said = KubernetesLook(question_of(server), ask)()

    assert list(said.found) == ["gpu-01"]
    assert server.permissions is not None
    assert server.permissions.used == server.permissions.every() == {("nodes", "list"), ("namespaces", "get")}


def test_a_source_with_the_rights_of_the_drain_is_refused_by_the_cluster(ask: AskController, tmp_path: Path) -> None:
    need_kubectl()
    with (
        KubeServer(tmp_path / "kube", cluster(), permissions=permissions("unstick-drain")) as server,
        pytest.raises(SourceSilent, match="forbidden"),
    ):
        KubernetesLook(question_of(server), ask)()
