"""docs/kubernetes-rbac.yaml: it is what the API takes, and gives no right that a drain does not need."""

from pathlib import Path

import yaml

ROLE_KEYS = {"apiGroups", "resources", "verbs", "resourceNames"}
DOCUMENTS = list(yaml.safe_load_all(Path("docs/kubernetes-rbac.yaml").read_text()))


def test_the_documents_have_the_kinds_and_names_of_the_api() -> None:
    told = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in DOCUMENTS]
    group = "rbac.authorization.k8s.io/v1"
    role, binding = DOCUMENTS[2], DOCUMENTS[3]

    assert told == [
        ("v1", "Namespace", "unstick"),
        ("v1", "ServiceAccount", "unstick"),
        (group, "ClusterRole", "unstick-drain"),
        (group, "ClusterRoleBinding", "unstick-drain"),
    ]
    assert all(set(rule) <= ROLE_KEYS and set(rule) >= ROLE_KEYS - {"resourceNames"} for rule in role["rules"])
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "unstick-drain",
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "unstick", "namespace": "unstick"}]


def test_it_gives_neither_deleting_nor_secrets_nor_exec() -> None:
    rules = DOCUMENTS[2]["rules"]
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    resources = {resource for rule in rules for resource in rule["resources"]}

    assert verbs == {"get", "list", "patch", "create"}
    assert resources == {"nodes", "pods", "pods/eviction", "daemonsets", "poddisruptionbudgets", "namespaces"}
