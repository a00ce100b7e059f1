"""What both drains ask the node: who blocks a shutdown, and whether GPUs and driver are well after it."""

from pathlib import Path

import pytest

from tests.support.fake_node import FakeNode, Said

DIAGNOSIS = "| Deployment   |        |\n| Denylist     | {}   |\n"


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    (tmp_path / "pci").mkdir()
    places = {
        "devices=/sys/bus/pci/devices": f"devices={tmp_path}/pci",
        "\nkernel=/proc/driver/nvidia\n": f"\nkernel={tmp_path}/kernel\n",
        "\nlock=/run\n": f"\nlock={tmp_path}\n",
    }
    return FakeNode(tmp_path, "drain-and-reboot-slurm", places=places)


def with_gpus(node: FakeNode, count: int, *, nvidia_smi: str) -> Said:
    """Put GPUs on the bus, and a network card; ask whether they are well."""
    for number in range(count + 1):
        device = node.folder / f"pci/0000:{number:02x}:00.0"
        device.mkdir()
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n" if number < count else "0x020700\n")
    node.has("nvidia-smi", nvidia_smi)
    return node.shell("gpus_well 600")


def rows(*values: str, recovery: str = "None") -> str:
    lines = "".join(f"GPU-{number}, {value}\\n" for number, value in enumerate(values))
    return f"case $1 in -q) echo '    GPU Recovery Action : {recovery}' ;; *) printf '{lines}' ;; esac"


@pytest.mark.parametrize(
    ("count", "nvidia_smi", "code"),
    [
        (2, rows("1", "4"), 0),
        (2, rows("1"), 77),
        (2, rows("1", "40000"), 77),
        (2, rows("1", "[N/A]"), 2),
        (2, rows("1", "4", recovery="Reset"), 77),
        (2, "echo 'NVIDIA-SMI has failed'; exit 9", 2),
    ],
)
def test_gpus_are_well_when_each_on_the_bus_answers_and_is_idle(
    node: FakeNode, count: int, nvidia_smi: str, code: int
) -> None:
    assert with_gpus(node, count, nvidia_smi=nvidia_smi).code == code


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        ('s "handle-lid-switch"', 0, ""),
        ('s "shutdown:sleep"', 1, "refused: inhibitor: somebody blocks a shutdown of this node:\nbackup 0 root\n"),
        ('s "sleep:shutdown"', 1, "refused: inhibitor: somebody blocks a shutdown of this node:\nbackup 0 root\n"),
    ],
)
def test_who_blocks_a_shutdown_is_named(node: FakeNode, said: str, code: int, told: str) -> None:
    node.has("busctl", f"echo '{said}'")
    node.has("systemd-inhibit", "echo 'backup 0 root'")

    inhibits = node.shell("nobody_inhibits || exit 1")

    assert (inhibits.code, inhibits.output) == (1 if code else 0, told)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("[  1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module", 0),
        ("[  9.0] NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', GPU has fallen off the bus.", 77),
        ("[  9.0] NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", 77),
    ],
)
def test_the_driver_is_silent_after_a_good_boot(node: FakeNode, said: str, code: int) -> None:
    node.has("dmesg", f'echo "{said}"')

    assert node.shell("no_xid").code == code


@pytest.mark.parametrize(
    ("row", "exit_code", "code"), [("Pass", 0, 0), ("Fail", 226, 77), ("Fail", 0, 77), ("Skip", 1, 2), ("Skip", 0, 2)]
)
def test_the_diagnosis_of_dcgm_decides_and_one_that_cannot_be_made_is_no_pass(
    node: FakeNode, row: str, exit_code: int, code: int
) -> None:
    node.has("dcgmi", f"printf '{DIAGNOSIS.format(row)}'; exit {exit_code}")

    assert node.shell("dcgm_passes").code == code


@pytest.mark.parametrize("said", ["", "Error: unable to establish a connection to the specified host: localhost"])
def test_a_diagnosis_that_shows_no_test_is_no_pass(node: FakeNode, said: str) -> None:
    node.has("dcgmi", f"echo '{said}'")

    assert node.shell("dcgm_passes").code == 2


def test_a_kernel_log_without_a_word_is_no_silent_driver(node: FakeNode) -> None:
    node.has("dmesg", "true")
    node.has("journalctl", "true")

    assert node.shell("no_xid").code == 2
