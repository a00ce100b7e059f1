"""A reboot that was sent: whether it began, whether the machine is back, and that somebody looked before it."""

from pathlib import Path

import pytest

from service.app.load_runbooks import RunbookFolder
from tests.support.fake_node import RUNBOOKS, FakeNode, Said

OLD, NEW = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
TARGETS = (f"boot {OLD}", "gpu 0000:17:00.0")
SHIPPED = sorted(path.stem for path in RUNBOOKS.glob("*.yaml"))


class Rebooting:
    """A node to which a reboot was sent a while ago, and three minutes are given it to begin."""

    def __init__(self, folder: Path) -> None:
        (folder / "pci/0000:17:00.0").mkdir(parents=True)
        (folder / "pci/0000:17:00.0/vendor").write_text("0x10de\n")
        (folder / "pci/0000:17:00.0/class").write_text("0x030200\n")
        places = {
            "devices=/sys/bus/pci/devices": f"devices={folder}/pci",
            "boot_file=/proc/sys/kernel/random/boot_id": f"boot_file={folder}/boot",
            "read -r up _ </proc/uptime": f"read -r up _ <{folder}/uptime",
        }
        self.fake = FakeNode(folder, "drain-and-reboot-slurm", places=places)
        self.fake.has("journalctl", "echo 'Failed to start reboot.target: Connection timed out'")
        (folder / "uptime").write_text("1000.00 1.00\n")
        (folder / "boot").write_text(f"{OLD}\n")

    def asked(self, *, sent: float | None = None, system: str = "running") -> Said:
        """Ask how it stands, so many seconds after it was sent; None: nothing of it is known to systemd."""
        at = 0 if sent is None else (1000 - sent) * 1e6
        self.fake.has("systemctl", f"case $1 in show) echo {at:.0f} ;; *) echo {system} ;; esac")
        return self.fake.shell("UNSTICK_RUN_ID=r1\nrebooted plain 180", TARGETS)


@pytest.fixture
def node(tmp_path: Path) -> Rebooting:
    return Rebooting(tmp_path)


def test_a_reboot_that_did_not_begin_is_told_as_not_started_with_what_systemd_said(node: Rebooting) -> None:
    unknown, young, old = node.asked(), node.asked(sent=60), node.asked(sent=200)

    assert (unknown.code, unknown.output) == (77, "no reboot has begun\n")
    assert (young.code, old.code) == (77, 0)
    assert old.output == (
        f"not started: still boot {OLD}, 200 s after the reboot was sent\n"
        "Failed to start reboot.target: Connection timed out\n"
    )


def test_a_shutdown_that_hangs_is_no_boot_however_long_it_takes(node: Rebooting) -> None:
    going_down = node.asked(sent=900, system="stopping")

    assert (going_down.code, going_down.output) == (77, "it goes down\n")


def test_only_a_new_boot_with_every_gpu_is_back(node: Rebooting) -> None:
    (node.fake.folder / "boot").write_text(f"{NEW}\n")

    back = node.asked()
    (node.fake.folder / "pci/0000:17:00.0/vendor").write_text("0x8086\n")
    without = node.asked()

    assert (back.code, back.output) == (0, f"it has booted: boot {NEW}\n")
    assert (without.code, without.output.splitlines()[-1]) == (77, "not back: gpu 0000:17:00.0")


@pytest.mark.parametrize("name", SHIPPED)
def test_evidence_is_taken_before_anything_is_changed(name: str) -> None:
    runbook, _ = RunbookFolder(RUNBOOKS).get(name)
    acting = [step for step in runbook.steps if step.run is not None and not step.read_only]

    first = runbook.steps[0]

    assert (first.read_only, first.run is not None) == (True, True) or not acting
