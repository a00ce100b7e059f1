"""A unit of a booted node really restarts, and the settings of its made-up GPUs are as they were on every path."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.nodes import Node
from service.domain.node import ExecutorKind
from service.domain.run import GateState
from service.domain.script import ScriptKind
from tests.cures.cure import Cure, by_each, ending, outcomes
from tests.support.fake_gpu import FakeGpus
from tests.support.world import RUNBOOKS

pytestmark = pytest.mark.needs_root

RUNBOOK = "restart-nvidia-persistenced"
STATE = "/var/lib/lab/gpu"
#: A daemon that closes the GPUs when it ends, and fails when the file `dies` appears.
UNIT = f"""[Service]
Type=simple
ExecStart=/bin/sh -c 'until [ -e {STATE}/dies ]; do sleep 0.1; done; exit 1'
ExecStopPost=/bin/sh -c 'for gpu in {STATE}/gpus/*; do cp {STATE}/closed/* "$gpu"; done'
[Install]
WantedBy=multi-user.target
"""
A, B = "GPU-aaaa", "GPU-bbbb"
QUICK = {"hold_seconds": 2, "settle_seconds": 2}


class Daemon:
    """The unit of the node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        (node.root / "etc/systemd/system/nvidia-persistenced.service").write_text(UNIT)
        self.tell("daemon-reload")
        self.tell("enable", "--now", "nvidia-persistenced")

    def tell(self, *words: str) -> None:
        done = self._node.run(["systemctl", *words])
        assert done.returncode == 0, done.stderr

    def identity(self) -> dict[str, str]:
        names = ("MainPID", "InvocationID", "ActiveState")
        said = self._node.run(["systemctl", "show", "nvidia-persistenced", f"--property={','.join(names)}"])
        return dict(line.split("=", 1) for line in said.stdout.splitlines())


@pytest.fixture
def gpus(node: Node) -> FakeGpus:
    """Give the node two GPUs."""
    state = node.root / STATE.lstrip("/")
    shutil.rmtree(state, ignore_errors=True)
    return FakeGpus(state, node.root / "usr/bin/nvidia-smi", seen_as=STATE)


@pytest.fixture
def daemon(node: Node, gpus: FakeGpus) -> Iterator[Daemon]:
    """Give the node its daemon, running."""
    made = Daemon(node)
    yield made
    node.run(["systemctl", "disable", "--now", "nvidia-persistenced"])
    node.run(["systemctl", "reset-failed", "nvidia-persistenced"])


@by_each
def test_the_unit_really_restarts_and_what_it_forgot_is_set_back(cure: Cure, daemon: Daemon, gpus: FakeGpus) -> None:
    before, settings = daemon.identity(), gpus.settings()
    gpus.latch(B)

    run = cure.request(RUNBOOK, params=QUICK)
    node_run = cure.end(run)

    after = daemon.identity()
    assert (ending(node_run), outcomes(node_run)) == (
        ("succeeded", "cured"),
        {"evidence": "ok", "restart": "changed", "restore": "changed", "well": "ok"},
    )
    assert before["InvocationID"] != after["InvocationID"]
    assert before["MainPID"] != after["MainPID"]
    assert after["ActiveState"] == "active"
    assert gpus.settings() == settings
    assert f"invocation {before['InvocationID']} pid {before['MainPID']} " in cure.targets(run, "restart")[0]


def test_a_daemon_that_fails_soon_after_its_start_is_not_called_restarted(
    tmp_path: Path, node: Node, executor: ExecutorKind, daemon: Daemon, gpus: FakeGpus
) -> None:
    # The shipped runbook, with less patience.
    runbooks = shutil.copytree(RUNBOOKS, tmp_path / "runbooks")
    text = (runbooks / f"{RUNBOOK}.yaml").read_text()
    assert text.count("within: 3m\n") == 1
    (runbooks / f"{RUNBOOK}.yaml").write_text(text.replace("within: 3m\n", "within: 15s\n"))
    cure = Cure.build(tmp_path, node, executor=executor, runbooks=runbooks)
    settings = gpus.settings()
    gpus.latch(B)

    run = cure.request(RUNBOOK, params={**QUICK, "settle_seconds": 30})
    cure.go_on(run, lambda: "settled" in cure.said(run, "restart", kind=ScriptKind.VERIFY))
    (node.root / STATE.lstrip("/") / "dies").touch()
    node_run = cure.end(run)
    said = cure.said(run, "restart", kind=ScriptKind.VERIFY)
    cure.close()

    assert (ending(node_run), outcomes(node_run)) == (
        ("failed", "not_cured"),
        {"evidence": "ok", "restart": "failed", "restore": "changed"},
    )
    assert " s, and 30 s count as settled\n" in said
    assert said.endswith("\nit was restarted and is not active: failed, exit-code\n")
    assert gpus.settings() == settings


def test_in_a_driver_container_the_mode_is_switched_by_chroot(
    cure: Cure, node: Node, daemon: Daemon, gpus: FakeGpus
) -> None:
    daemon.tell("disable", "--now", "nvidia-persistenced")
    # As the driver container shows its root: here it has the node's own programs.
    node.run(["mkdir", "-p", "/run/nvidia/driver"])
    node.run(["mount", "--bind", "/", "/run/nvidia/driver"])
    for field, value in {"power.limit": "400.00", "clocks.applications.graphics": "1980"}.items():
        for gpu in (A, B):
            gpus.set(gpu, **{field: value})
    settings = gpus.settings()
    gpus.latch(B)

    run = cure.request(RUNBOOK, params=QUICK)
    try:
        node_run = cure.end(run)
    finally:
        node.run(["umount", "/run/nvidia/driver"])

    assert (ending(node_run), outcomes(node_run)["restore"]) == (("succeeded", "cured"), "changed")
    assert "way: operator;" in cure.said(run, "restart", kind=ScriptKind.CHECK)
    assert gpus.changes()[:2] == [f"nvidia-smi -i {B} -pm 0", f"nvidia-smi -i {B} -pm 1"]
    assert gpus.settings() == settings


def test_a_gate_that_is_denied_or_expires_leaves_the_node_as_it_was_found(
    cure: Cure, daemon: Daemon, gpus: FakeGpus
) -> None:
    gpus.latch(B)
    before = (daemon.identity(), gpus.settings())

    denied = cure.request(RUNBOOK, params=QUICK)
    after_denial = cure.deny(denied, "restart")
    expired = cure.request(RUNBOOK, params=QUICK)
    after_expiry = cure.expire(expired, "restart")

    assert (ending(after_denial), cure.gates(denied)) == (("denied", None), {"restart": GateState.DENIED})
    assert (ending(after_expiry), cure.gates(expired)) == (("expired", None), {"restart": GateState.EXPIRED})
    assert outcomes(after_denial)["restore"] == outcomes(after_expiry)["restore"] == "skipped"
    assert ((daemon.identity(), gpus.settings()), gpus.changes()) == (before, [])
