"""Each script of the controller, with the real kubectl against the stand-in and the rights of the documentation."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.kube.cluster import Cluster
from lab.kube.faults import Fault
from lab.kube.merging import STRATEGIC
from lab.kube.objects import Object, Owner, PodSpec, budget, now
from lab.needs import need_kubectl
from service.domain.script import ScriptKind
from tests.cures.kube_stage import NAME, TRAINING, Controller, cluster_of, found

CHECK, RUN, VERIFY = ScriptKind.CHECK, ScriptKind.RUN, ScriptKind.VERIFY
PLACE = ("ml", "train-0")
EVICTION = "/api/v1/namespaces/ml/pods/train-0/eviction"
OURS = ("run", "since", "gpus", "taints", "cordoned-by")


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    need_kubectl()
    with cluster_of(tmp_path, "boot-1") as server:
        yield Controller(tmp_path, server)


@pytest.fixture
def cluster(controller: Controller) -> Cluster:
    return controller.server.cluster


def patch(cluster: Cluster, change: Object) -> None:
    cluster.patch("nodes", ("", NAME), change, kind=STRATEGIC)


def notes(cluster: Cluster) -> dict[str, str]:
    return {key.removeprefix("unstick/"): value for key, value in found(cluster)["notes"].items()}


def cordon(controller: Controller) -> tuple[str, ...]:
    """Cordon the node as the run would, and return the targets."""
    check = controller.play("cordon", CHECK)
    assert controller.play("cordon", RUN, check.targets).code == 0
    assert controller.play("cordon", VERIFY, check.targets).code == 0
    return check.targets


def _control_plane(controller: Controller) -> None:
    patch(controller.server.cluster, {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}})


def _excluded(controller: Controller) -> None:
    patch(controller.server.cluster, {"metadata": {"annotations": {"unstick/exclude": "spare"}}})


def _other_machine(controller: Controller) -> None:
    controller.boot_id = "boot-9"


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (_control_plane, "refused: this node is excluded: label node-role.kubernetes.io/control-plane"),
        (_excluded, "refused: this node is excluded: annotation unstick/exclude spare"),
        (_other_machine, "refused: the cluster tells of boot boot-1 of gpu-01, and the machine is on boot boot-9"),
    ],
)
def test_a_node_that_is_not_to_be_drained_is_refused(
    controller: Controller, prepare: Callable[[Controller], None], told: str
) -> None:
    prepare(controller)

    look, check = controller.play("in-cluster", RUN), controller.play("cordon", CHECK)

    assert (look.code, check.code, check.targets) == (2, 2, ())
    assert told in look.output
    assert told in check.output


def test_another_cluster_is_refused_by_every_script_before_the_node_is_asked_for(controller: Controller) -> None:
    uid = controller.server.cluster.uid
    controller.expected_uid = uid
    controller.server.cluster.get("namespaces", "", "kube-system")["metadata"]["uid"] = "another"

    played = [controller.play(step, RUN) for step in ("in-cluster", "cordon", "drain", "give-back", "uncordon")]

    assert {said.code for said in played} == {2}
    assert {said.output for said in played} == {
        f"refused: wrong cluster: its kube-system has the UID another, and KUBE_SYSTEM_UID is {uid}\n"
    }
    assert controller.server.seen("GET", "/nodes") == []


def test_a_controller_without_the_cluster_s_uid_is_told_how_to_learn_it(controller: Controller) -> None:
    controller.expected_uid = ""

    said = controller.play("cordon", CHECK)

    told = "could not look: the controller's env has no KUBE_SYSTEM_UID; it is what this prints: kubectl get namespace"
    assert (said.code, said.output) == (2, f"{told} kube-system -o jsonpath={{.metadata.uid}}\n")


def test_cordon_and_mark_are_one_act_and_are_undone_together(controller: Controller, cluster: Cluster) -> None:
    before = found(cluster)

    targets = cordon(controller)
    marked, cordoned = notes(cluster), found(cluster)["spec"]
    undone = controller.play("uncordon", RUN, targets)

    assert [target.split(" was ")[1] for target in targets] == ["schedulable"]
    assert tuple(sorted(marked)) == tuple(sorted(OURS))
    assert (marked["run"], marked["cordoned-by"], marked["gpus"]) == ("run-1", "run-1", "8")
    assert cordoned["unschedulable"] is True
    assert len(controller.server.seen("PATCH")) == 2
    assert (undone.code, controller.play("uncordon", VERIFY, targets).code) == (0, 0)
    assert found(cluster) == before


def test_a_cordon_of_others_is_never_undone(controller: Controller, cluster: Cluster) -> None:
    patch(cluster, {"spec": {"unschedulable": True}})
    before = found(cluster)

    targets = cordon(controller)
    assert "cordoned-by" not in notes(cluster)
    proven = controller.play("give-back", RUN)

    assert targets[0].endswith(" was cordoned by others")
    assert (proven.code, found(cluster)) == (0, before)
    assert "the cordon is not of this run, and stays\n" in proven.output


def test_a_cordon_that_an_earlier_run_left_is_taken_over_and_undone_only_when_the_node_is_proven(
    controller: Controller, cluster: Cluster
) -> None:
    cordon(controller)
    patch(cluster, {"metadata": {"annotations": {"unstick/reboot-sent": "run-1"}}})
    controller.run_id = "run-2"

    targets = cordon(controller)
    assert targets[0].endswith(" was cordoned by run run-1")
    controller.play("uncordon", RUN, targets)
    as_it_was = notes(cluster), found(cluster)["spec"].get("unschedulable")
    cordon(controller)
    controller.play("give-back", RUN)

    assert as_it_was == ({"cordoned-by": "run-1"}, True)
    assert (notes(cluster), found(cluster)["spec"].get("unschedulable")) == ({}, None)


def test_after_a_reboot_that_is_not_proven_the_node_stays_cordoned(controller: Controller, cluster: Cluster) -> None:
    targets = cordon(controller)

    noted = controller.play("note-reboot", RUN), controller.play("note-reboot", VERIFY)
    left = controller.play("uncordon", RUN, targets), controller.play("uncordon", VERIFY, targets)

    assert [said.code for said in (*noted, *left)] == [0, 0, 77, 0]
    assert left[0].output.endswith("is not proven well. Look at it, then: kubectl uncordon gpu-01\n")
    assert (notes(cluster)["reboot-sent"], found(cluster)["spec"]["unschedulable"]) == ("run-1", True)


def test_a_taint_that_others_set_meanwhile_keeps_the_node_cordoned(controller: Controller, cluster: Cluster) -> None:
    patch(cluster, {"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}})
    targets = cordon(controller)
    taints = found(cluster)["spec"]["taints"]
    patch(cluster, {"spec": {"taints": [*taints, {"key": "quarantine", "effect": "NoExecute"}]}})

    said = controller.play("uncordon", RUN, targets)

    told = "it stays cordoned: the taints of others were nvidia.com/gpu:NoSchedule, and are"
    assert f"{told} nvidia.com/gpu:NoSchedule,quarantine:NoExecute\n" in said.output
    assert (notes(cluster), found(cluster)["spec"]["unschedulable"]) == ({"cordoned-by": "run-1"}, True)


def test_the_gate_shows_which_pods_go_and_of_which_larger_jobs(controller: Controller, cluster: Cluster) -> None:
    job = {"job-name": "llm", "jobset.sigs.k8s.io/jobset-name": "llm"}
    uids = [
        cluster.add_pod(PodSpec("a", owner=Owner("Job", "llm-0"), labels=job), NAME),
        cluster.add_pod(PodSpec("train-0", owner=TRAINING), NAME),
    ]
    for number in range(3):
        cluster.add_pod(PodSpec(f"b{number}", owner=Owner("Job", "llm-1"), labels=job), f"gpu-1{number}")
    cluster.add_pod(PodSpec("train-1", owner=TRAINING), "gpu-02")

    check = controller.play("drain", CHECK)

    assert (check.code, check.targets[1:]) == (
        0,
        (
            f"pod ml/a uid {uids[0]} of Job/llm-0, 1 of 4 pods of jobset.sigs.k8s.io/jobset-name=llm on 4 nodes",
            f"pod ml/train-0 uid {uids[1]} of StatefulSet/train, 1 of 2 pods of its owner on 2 nodes",
        ),
    )
    assert len(cluster.pods_on(NAME)) == 4


def test_pods_that_block_are_all_named_with_the_parameter_that_lets_them_go(
    controller: Controller, cluster: Cluster
) -> None:
    cluster.add_pod(PodSpec("mount"), NAME)
    cluster.add_pod(PodSpec("scratch", owner=TRAINING, empty_dir=True), NAME)
    cluster.add_pod(PodSpec("done", phase="Succeeded", empty_dir=True), NAME)

    blocked = controller.play("drain", CHECK)
    allowed = controller.play("drain", CHECK, delete_unmanaged=True, delete_emptydir_data=True)

    assert (blocked.code, blocked.output.splitlines()[-3:]) == (
        2,
        [
            "these pods block the drain; let somebody end them, or ask for a run with the parameter named:",
            "ml/mount has no controller, so nobody would start it again: delete_unmanaged",
            "ml/scratch has an emptyDir, whose data would be deleted: delete_emptydir_data",
        ],
    )
    assert allowed.code == 0
    ends = [target.split(" of ", 1)[1] for target in allowed.targets[1:]]
    assert ends == [
        "-",
        "-, unmanaged: nobody starts it again",
        "StatefulSet/train, 1 of 1 pods of its owner on 1 nodes, emptyDir: its data is deleted",
    ]


@pytest.mark.parametrize(
    ("params", "flags"),
    [
        ({}, ""),
        ({"delete_unmanaged": True}, " --force"),
        ({"delete_emptydir_data": True}, " --delete-emptydir-data"),
        ({"disable_eviction": True}, " --disable-eviction"),
    ],
)
def test_what_loses_more_is_never_added_by_itself(
    controller: Controller, cluster: Cluster, params: dict[str, Any], flags: str
) -> None:
    cluster.add_pod(PodSpec("train-0", owner=TRAINING), NAME)
    cordon(controller)
    check = controller.play("drain", CHECK, **params)

    run = controller.play("drain", RUN, check.targets, drain_timeout=10, **params)

    assert run.output.splitlines()[0] == f"kubectl drain gpu-01 --ignore-daemonsets --timeout=10s{flags}"
    # Deleting is a right that the role does not give.
    assert run.code == (2 if flags == " --disable-eviction" else 0), run.output
    assert (controller.server.seen("DELETE") != []) is (flags == " --disable-eviction")


def test_a_budget_that_never_allows_it_ends_the_drain_at_its_time(controller: Controller, cluster: Cluster) -> None:
    cluster.add_pod(PodSpec("train-0", owner=TRAINING, labels={"app": "train"}), NAME)
    cluster.add_pod(PodSpec("free", owner=TRAINING), NAME)
    cluster.add("poddisruptionbudgets", budget("train", labels={"app": "train"}, allowed=0))
    cordon(controller)

    check = controller.play("drain", CHECK)
    run = controller.play("drain", RUN, check.targets, drain_timeout=7)
    verify = controller.play("drain", VERIFY, check.targets)

    told = "Cannot evict pod as it would violate the pod's disruption budget."
    assert "ml/train-0 cannot go now, and is asked again until drain_timeout: Error from server (Too" in check.output
    assert (check.code, run.code, verify.code) == (0, 2, 77)
    assert told in run.output
    assert run.output.splitlines()[-2:][0] == "these pods stay:"
    assert "ml train-0 " in run.output.splitlines()[-1]
    assert "StatefulSet/train is still there (Running), and not terminating\n" in verify.output
    assert "ml/free" not in cluster.pods_on(NAME)
    assert controller.server.seen("DELETE") == []


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (
            500,
            "InternalError",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not",
        ),
        (403, "Forbidden", "admission webhook denied the request"),
    ],
)
def test_an_eviction_that_will_never_be_allowed_blocks_before_the_gate(
    controller: Controller, cluster: Cluster, code: int, reason: str, message: str
) -> None:
    cluster.add_pod(PodSpec("train-0", owner=TRAINING), NAME)
    controller.server.faults.append(Fault("POST", EVICTION, code, reason, message, times=None))

    check = controller.play("drain", CHECK)

    assert check.code == 2
    assert "ml/train-0 cannot be evicted: Error from server" in check.output
    assert message in check.output


def test_a_pod_that_came_after_the_look_is_not_evicted_with_the_others(
    controller: Controller, cluster: Cluster
) -> None:
    cluster.add_pod(PodSpec("train-0", owner=TRAINING), NAME)
    cordon(controller)
    check = controller.play("drain", CHECK)
    later = cluster.add_pod(PodSpec("later", owner=TRAINING), NAME)

    run = controller.play("drain", RUN, check.targets)

    assert (run.code, run.output) == (2, f"not approved, so nothing is evicted:\nml/later uid {later}\n")
    assert len(cluster.pods_on(NAME)) == 4


def test_a_pod_that_was_made_anew_elsewhere_under_its_name_is_gone_from_here(
    controller: Controller, cluster: Cluster
) -> None:
    cluster.add_pod(PodSpec("train-0", owner=TRAINING, ends_after=0.0), NAME)
    cordon(controller)
    check = controller.play("drain", CHECK)
    cluster.add_pod(PodSpec("train-0", owner=TRAINING), "gpu-02")

    run, verify = controller.play("drain", RUN, check.targets), controller.play("drain", VERIFY, check.targets)

    assert (run.code, run.output, verify.code) == (77, "every approved pod has gone\n", 0)
    assert cluster.pods_on("gpu-02") == ["ml/train-0"]


def _overdue(cluster: Cluster) -> Object:
    cluster.delete_pod(PLACE)
    pod = cluster.get("pods", *PLACE)
    pod["metadata"]["deletionTimestamp"] = now(-60)
    return pod


def _not_overdue(cluster: Cluster) -> None:
    _overdue(cluster)["metadata"]["deletionTimestamp"] = now(30)


def _ended(cluster: Cluster) -> None:
    _overdue(cluster)["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 137}}


def _no_kubelet(cluster: Cluster) -> None:
    _overdue(cluster)
    cluster.node(NAME)["status"]["conditions"][0]["status"] = "Unknown"


@pytest.mark.parametrize(
    ("prepare", "code", "told"),
    [
        (_overdue, 0, "is stuck: terminating, "),
        (_not_overdue, 77, "is terminating, -"),
        (_ended, 77, "runs no more and is not gone: a finalizer or a volume holds it"),
        (_no_kubelet, 77, "is terminating, and no kubelet tells whether it runs"),
    ],
)
def test_a_partial_drain_goes_on_only_past_pods_that_outlive_their_kill(
    controller: Controller, cluster: Cluster, prepare: Callable[[Cluster], object], code: int, told: str
) -> None:
    cluster.add_pod(PodSpec("train-0", owner=TRAINING, ends_after=None), NAME)
    prepare(cluster)

    verify = controller.play("drain", VERIFY, stuck_after=10)

    assert (verify.code, told in verify.output) == (code, True), verify.output


def test_back_is_a_new_boot_that_both_tell_of_and_ready_since(controller: Controller, cluster: Cluster) -> None:
    cordon(controller)
    controller.last_boot_id = "boot-2"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now(5)}
    told = []
    for change in (
        {},
        {"nodeInfo": {"bootID": "boot-3"}},
        {"nodeInfo": {"bootID": "boot-2"}},
        {"conditions": [ready], "allocatable": {"nvidia.com/gpu": "7"}},
        {"allocatable": {"nvidia.com/gpu": "8"}},
    ):
        patch(cluster, {"status": change})
        said = controller.play("back", VERIFY)
        told.append((said.code, said.output.split(",")[0].rstrip("\n")))

    assert told == [
        (77, "the cluster still tells of the boot before"),
        (77, "the cluster tells of boot boot-3"),
        (77, "Ready is True 2026-01-01T00:00:00Z"),
        (77, "it offers 7 GPUs"),
        (0, "boot boot-2"),
    ]


def test_an_api_server_that_does_not_answer_is_could_not_look(controller: Controller) -> None:
    controller.server.faults.append(Fault("GET", f"/api/v1/nodes/{NAME}", 503, "ServiceUnavailable", "no", times=None))

    said = controller.play("uncordon", VERIFY)

    assert said.code == 2


def _kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Let another program stand before the real kubectl, which it finds as $REAL."""
    real = shutil.which("kubectl")
    place = folder / "bin"
    place.mkdir()
    (place / "kubectl").write_text(f"#!/bin/bash\nREAL={real}\n{body}\n")
    (place / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    "body",
    [
        # It fails and tells it by its words alone.
        'case "$*" in *"get pods"*) echo "error: the server is unavailable" ;; *) exec $REAL "$@" ;; esac',
        # It is cut off in the middle, or says nothing.
        'case "$*" in *"get pods"*) $REAL "$@" | head -n 1 ;; *) exec $REAL "$@" ;; esac',
        'case "$*" in *"get pods"*) ;; *) exec $REAL "$@" ;; esac',
    ],
)
def test_a_kubectl_that_ends_well_and_does_not_list_the_pods_is_no_empty_node(
    controller: Controller, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    cluster.add_pod(PodSpec("train-0", namespace="ml", owner=TRAINING), NAME)
    targets = cordon(controller)
    _kubectl(tmp_path, monkeypatch, body)

    check, verify = controller.play("drain", CHECK), controller.play("drain", VERIFY, targets)

    assert (check.code, verify.code) == (2, 2)
    assert "could not look: kubectl" in check.output


@pytest.mark.parametrize("said", ["", "error: the server is unavailable", "uid 1"])
def test_a_kubectl_that_ends_well_and_does_not_tell_of_the_node_proves_nothing_given_back(
    controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    targets = cordon(controller)
    _kubectl(tmp_path, monkeypatch, f'case "$*" in *"get node "*) echo "{said}" ;; *) exec $REAL "$@" ;; esac')

    run, verify = controller.play("uncordon", RUN, targets), controller.play("uncordon", VERIFY, targets)

    assert (run.code, verify.code) == (2, 2)


def test_an_annotation_of_many_lines_says_nothing_of_the_node(controller: Controller, cluster: Cluster) -> None:
    text = "a\nboot other\ncordoned no\nannotation unstick/run run-9\nlabel unstick/exclude x\ntaint a:NoSchedule\n"
    patch(cluster, {"metadata": {"annotations": {"tool/notes": text}}})
    before = found(cluster)

    targets = cordon(controller)
    undone = controller.play("uncordon", RUN, targets)

    assert (undone.code, controller.play("uncordon", VERIFY, targets).code) == (0, 0)
    assert found(cluster) == before
