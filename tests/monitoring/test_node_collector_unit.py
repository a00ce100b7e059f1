"""The nodes' collector as its timer's service plays it on a booted node, and what logind says there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.nodes import Node
from lab.process import wait_until
from tests.monitoring.collector import SCRIPT, Seen, read

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

OUT = "var/lib/prometheus/node-exporter"
UNITS = "etc/systemd/system"
#: Its PID 1 is that of a container, which the collector else takes for no place to look from.
BOOTED = "[Service]\nEnvironment=UNSTICK_VIEW=boot\n"
YES, NO = (f"ipc_owners_without_linger{{logged_in={answer}}}" for answer in ("yes", "no"))


def install(node: Node) -> None:
    """Put it where docs/monitoring.md says."""
    program = node.root / "usr/local/sbin/unstick-node-metrics"
    program.write_bytes(SCRIPT.read_bytes())
    program.chmod(0o755)
    (node.root / OUT).mkdir(parents=True)
    for kind in ("service", "timer"):
        name = f"unstick-node-metrics.{kind}"
        (node.root / UNITS / name).write_bytes((SCRIPT.parent / name).read_bytes())
    drop_in = node.root / UNITS / "unstick-node-metrics.service.d/booted.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(BOOTED)
    node.run(["systemctl", "daemon-reload"])


def look(node: Node) -> Seen:
    file = node.root / OUT / "unstick-node.prom"
    file.unlink(missing_ok=True)
    done = node.run(["systemctl", "start", "unstick-node-metrics.service"])
    assert done.returncode == 0, done.stderr
    return read(file.read_text())


def test_who_owns_semaphores_and_does_not_linger_is_counted_by_login(lab_node: Callable[[str], Node]) -> None:
    node = lab_node("gpu-01")
    install(node)
    before = look(node)
    node.run(["runuser", "-u", "alice", "--", "ipcmk", "--semaphore", "1"])
    logged_out = look(node)
    session = ["--unit=session", "--uid=alice", "--property=PAMName=login", "--", "sleep", "600"]
    node.run(["systemd-run", "--quiet", *session])
    try:
        wait_until(lambda: "alice" in node.run(["loginctl", "list-users"]).stdout, "alice is logged in")
        logged_in = look(node)
        node.run(["loginctl", "enable-linger", "alice"])
        lingers = look(node)
    finally:
        node.run(["systemctl", "stop", "session"])
        node.run(["ipcrm", "--all"])
        node.run(["loginctl", "disable-linger", "alice"])

    looks = (before, logged_out, logged_in, lingers)
    assert [(seen[YES], seen[NO]) for seen in looks] == [(0, 0), (0, 1), (1, 0), (0, 0)]
    assert [(seen["remove_ipc"], seen["collector_success"]) for seen in looks] == [(1, 1)] * 4


def test_its_timer_is_one_that_systemd_accepts(lab_node: Callable[[str], Node]) -> None:
    node = lab_node("gpu-01")
    units = [f"/{UNITS}/unstick-node-metrics.{kind}" for kind in ("service", "timer")]
    if not (node.root / UNITS / Path(units[0]).name).exists():
        install(node)

    said = node.run(["systemd-analyze", "verify", "--man=no", *units])
    started = node.run(["systemctl", "enable", "--now", "unstick-node-metrics.timer"])
    listed = node.run(["systemctl", "is-active", "unstick-node-metrics.timer"])
    node.run(["systemctl", "disable", "--now", "unstick-node-metrics.timer"])

    assert (said.returncode, said.stderr, started.returncode, listed.stdout) == (0, "", 0, "active\n")
