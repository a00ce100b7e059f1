"""A node of Kubernetes is drained by the real kubectl, really reboots and is given back; or is left as it was found.

The API server is the lab's stand-in, with the rights of docs/kubernetes-rbac.yaml; its kubelet follows the real boots.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.kube.kubelet import Kubelet
from lab.kube.merging import STRATEGIC
from lab.kube.objects import Object, PodSpec
from lab.kube.server import KubeServer
from lab.needs import need_fuse, need_kubectl
from lab.nodes import Node
from lab.stuck import StuckConnection
from service.domain.node import Controller, Endpoint, ExecutorKind, Inventory, View
from service.domain.node import Node as InventoryNode
from service.domain.run import GateState, NodeRun, Run
from service.domain.script import ScriptKind
from tests.cures.cure import Cure, ShiftedClock, ending, endpoint_of, executors_with, outcomes
from tests.cures.kube_stage import NAME, RUNBOOK, TRAINING, cluster_of, environment, found
from tests.support.world import RUNBOOKS, World

pytestmark = pytest.mark.needs_root
#: No wait is longer than it must be to be seen.
QUICK = {"drain_timeout": 5, "stuck_after": 2, "hold_seconds": 3, "settle_seconds": 0}
#: What a test may not wait for.
SOONER = {"within: 75m": "within: 20s", "rebooted plain 180": "rebooted plain 2"}
#: A systemctl that never reboots, however often it is asked.
DEAF = '#!/bin/sh\n[ "$1" != reboot ] || exit 0\nexec /usr/bin/systemctl "$@"\n'


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    need_fuse()
    need_kubectl()
    with Node(NAME) as booted:
        yield booted


@dataclass
class Stage:
    """A cluster with one real node in it, and services that reach both."""

    server: KubeServer
    kubelet: Kubelet
    node: Node
    folder: Path
    built: list[Cure] = field(default_factory=list)

    def cure(self, **sooner: str) -> Cure:
        """Build a service; `approval_expires` is how long its gates wait, `reboot` how long a reboot may take."""
        runbooks = self.folder / f"runbooks-{len(self.built)}"
        shutil.copytree(RUNBOOKS, runbooks)
        file = runbooks / f"{RUNBOOK}.yaml"
        text = file.read_text()
        words = {"approval_expires: 4h": f"approval_expires: {sooner.get('approval', '4h')}"}
        words["within: 50m            # bare"] = f"within: {sooner.get('reboot', '50m')}            # bare"
        for old, new in (SOONER | words).items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        file.write_text(text)
        clock = ShiftedClock()
        attributes = {"k8s_name": NAME, "scheduler": "kubernetes"}
        known = InventoryNode(NAME, endpoint_of(self.node, ExecutorKind.SSH), ("gpu",), "k8s-a", attributes)
        at = Endpoint("k8s-a", ExecutorKind.LOCAL, "k8s-a", view=View.PRIVATE, path=os.environ["PATH"], keeps_user=True)
        inventory = Inventory({NAME: known}, {"k8s-a": Controller("k8s-a", at, environment(self.server))})
        url = f"sqlite:///{self.folder}/{len(self.built)}.db"
        world = World.build(url, executors_with(clock), inventory=inventory, runbooks=runbooks, clock=clock)
        self.built.append(Cure(world, self.node, clock))
        return self.built[-1]

    def as_found(self) -> Object:
        """Return all that this runbook could change."""
        return found(self.server.cluster) | {"boot": self.node.boot_id}

    def notes(self) -> dict[str, str]:
        """Return our annotations of the node."""
        given = found(self.server.cluster)["notes"]
        return {key.removeprefix("unstick/"): value for key, value in given.items()}

    def cordoned(self) -> bool:
        """Tell whether the node is cordoned."""
        return bool(found(self.server.cluster)["spec"].get("unschedulable"))


@pytest.fixture
def stage(tmp_path: Path, node: Node) -> Iterator[Stage]:
    """Give a cluster with the node."""
    with (
        cluster_of(tmp_path, node.boot_id) as server,
        Kubelet(server.cluster, NAME, boot_id=lambda: node.boot_id) as kubelet,
    ):
        made = Stage(server, kubelet, node, tmp_path)
        yield made
        for cure in made.built:
            cure.close()


def deny(cure: Cure, run: Run, step: str) -> NodeRun:
    """Say no at a gate."""
    return cure.deny(run, step)


def expire(cure: Cure, run: Run, step: str) -> NodeRun:
    """Let a gate expire by the real clock: what is undone afterwards is sent to real machines."""
    cure.to_gate(run, step)
    cure._until(run, lambda: cure.node_run(run).state.ended, keep=step)
    return cure.node_run(run)


def put_to_sleep_in_a_pod(node: Node, stuck: StuckConnection, uid: str) -> None:
    """Move the reader into the cgroup that a kubelet would have given it."""
    pod = f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{uid.replace('-', '_')}.slice/cri-1.scope"
    for hierarchy in ("systemd", "unified", "."):
        at = f"/sys/fs/cgroup/{hierarchy}"
        node.run(["sh", "-c", f"mkdir -p {at}/{pod} && echo {stuck.reader_pid} >{at}/{pod}/cgroup.procs"])


def test_a_node_is_drained_rebooted_proven_and_given_back(stage: Stage) -> None:
    uid = stage.server.cluster.add_pod(PodSpec("train-0", owner=TRAINING), NAME)
    stage.server.cluster.add_pod(PodSpec("train-1", owner=TRAINING), "gpu-02")
    before, cure = stage.as_found(), stage.cure()

    run = cure.request(RUNBOOK, params=QUICK)
    ended = cure.end(run)

    assert ending(ended) == ("succeeded", "cured"), outcomes(ended)
    assert cure.targets(run, "drain")[1:] == (
        f"pod ml/train-0 uid {uid} of StatefulSet/train, 1 of 2 pods of its owner on 2 nodes",
    )
    assert cure.targets(run, "reboot") == (f"boot {before['boot']}",)
    assert stage.node.boot_id != before["boot"]
    assert stage.as_found() == before | {
        "pods": ["gpu-operator/exporter", "kube-system/proxy"],
        "boot": stage.node.boot_id,
    }
    assert f"boot {stage.node.boot_id}, Ready since 2" in cure.said(run, "back", kind=ScriptKind.VERIFY)
    assert stage.server.permissions is not None
    assert stage.server.permissions.used == stage.server.permissions.every()


@pytest.mark.parametrize("answer", [deny, expire])
def test_while_nobody_lets_the_pods_go_the_node_is_cordoned_and_then_as_it_was(stage: Stage, answer: object) -> None:
    stage.server.cluster.add_pod(PodSpec("train-0", owner=TRAINING), NAME)
    before, cure = stage.as_found(), stage.cure(approval="4h" if answer is deny else "10s")
    run = cure.request(RUNBOOK, params=QUICK)
    cure.to_gate(run, "drain")
    meanwhile = stage.cordoned(), stage.notes()["run"]

    ended = deny(cure, run, "drain") if answer is deny else expire(cure, run, "drain")

    assert meanwhile == (True, run.id)
    assert ending(ended) == ("denied" if answer is deny else "expired", None)
    assert (cure.acted(run), stage.as_found()) == (["cordon", "uncordon"], before)


def test_a_pod_in_state_d_stays_terminating_and_the_drain_goes_on_past_it(stage: Stage) -> None:
    uid = stage.server.cluster.add_pod(PodSpec("train-0", owner=TRAINING, grace=0, ends_after=None), NAME)
    before = stage.as_found()
    with StuckConnection(stage.node) as stuck:
        put_to_sleep_in_a_pod(stage.node, stuck, uid)
        denied, expired = stage.cure(), stage.cure(approval="15s")

        first = denied.request(RUNBOOK, params=QUICK)
        ended = deny(denied, first, "abort-dead")
        still = stuck.reader_state()
        second = expired.request(RUNBOOK, params=QUICK | {"abort_fuse": False})
        late = expire(expired, second, "reboot")

        assert (ending(ended), ending(late), still) == (("denied", None), ("expired", None), "D")
        assert stuck.reader_state() == "D"
    assert f"ml/train-0 uid {uid} is stuck: terminating, " in denied.said(first, "drain", kind=ScriptKind.VERIFY)
    assert f"\n{uid} " in expired.said(second, "only-d", kind=ScriptKind.VERIFY)
    assert (outcomes(late)["only-d"], stage.as_found()) == ("ok", before)


@pytest.mark.proof
def test_a_bad_preview_stops_at_a_second_person(stage: Stage) -> None:
    before, cure = stage.as_found(), stage.cure()
    stage.node.run(["systemctl", "disable", "ssh"])
    try:
        run = cure.request(RUNBOOK, params=QUICK)
        ended = deny(cure, run, "reboot-despite-preview")
    finally:
        stage.node.run(["systemctl", "enable", "ssh"])

    boot, reason = cure.targets(run, "reboot-despite-preview")[:2]
    assert (ending(ended), boot) == (("denied", None), f"boot {before['boot']}")
    assert reason.startswith("will not come back: ")
    assert (cure.gates(run), stage.as_found()) == ({"reboot-despite-preview": GateState.DENIED}, before)


@pytest.mark.proof
def test_a_shutdown_that_somebody_blocks_is_refused_and_nothing_is_sent(stage: Stage) -> None:
    before, cure = stage.as_found(), stage.cure()
    pid = stage.node.start("block", ["systemd-inhibit", "--what=shutdown", "--mode=block", "sleep", "600"])
    try:
        run = cure.request(RUNBOOK, params=QUICK)
        ended = cure.end(run)
    finally:
        stage.node.kill(pid)

    assert (ending(ended)[0], outcomes(ended).get("reboot"), stage.as_found()) == ("failed", "failed", before)
    assert "refused: inhibitor: " in cure.said(run, "reboot", kind=ScriptKind.CHECK)


@pytest.mark.proof
def test_a_reboot_that_never_started_is_no_success_and_force_needs_a_second_person(stage: Stage) -> None:
    deaf = stage.node.root / "usr/local/sbin/systemctl"
    before, cure = stage.as_found(), stage.cure()
    deaf.write_text(DEAF)
    deaf.chmod(0o755)
    try:
        run = cure.request(RUNBOOK, params=QUICK)
        ended = deny(cure, run, "reboot-force")
    finally:
        deaf.unlink()

    assert ending(ended) == ("denied", None)
    assert f"not started: still boot {before['boot']}, " in cure.said(run, "reboot", kind=ScriptKind.VERIFY)
    assert cure.targets(run, "reboot-force")[1] == "rung systemctl reboot --force: no unit is stopped"
    assert (stage.cordoned(), stage.notes()["reboot-sent"], stage.node.boot_id) == (True, run.id, before["boot"])


@pytest.mark.proof
def test_a_node_that_does_not_come_back_stays_cordoned_until_a_later_run_has_proven_it(stage: Stage) -> None:
    before, cure = stage.as_found(), stage.cure(reboot="10s")
    stage.node.set_reboot_delay(25)
    run = cure.request(RUNBOOK, params=QUICK)
    stuck = cure.end(run)
    # A person may look now; what the run had cordoned stays so.
    left = str(stuck.state), outcomes(stuck)["reboot"], stage.cordoned(), stage.notes()["cordoned-by"]
    stage.node.set_reboot_delay(0)
    stage.node.wait(after_boot=before["boot"])
    stage.server.cluster.patch(
        "nodes", ("", NAME), {"status": {"nodeInfo": {"bootID": stage.node.boot_id}}}, kind=STRATEGIC
    )
    second = stage.cure()

    again = second.request(RUNBOOK, params=QUICK)
    ended = second.end(again)

    assert left == ("stuck", "unknown", True, run.id)
    assert second.targets(again, "cordon")[0].endswith(f" was cordoned by run {run.id}")
    assert (ending(ended), stage.cordoned(), stage.notes()) == (("succeeded", "cured"), False, {})
