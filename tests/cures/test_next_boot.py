"""The preview on a booted node with faults that really sleep there; each was seeded while all went on as before."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.nodes import Node
from lab.stuck import StuckConnection
from service.domain.node import ExecutorKind
from service.domain.script import ScriptKind
from tests.cures.boot_faults import do, equip
from tests.cures.cure import Cure, ending, outcomes
from tests.support.node_state import mounts, unit_files

pytestmark = pytest.mark.needs_root

SEEDED = (
    "systemctl mask ssh",
    "systemctl disable kubelet",
    "sed -i /^imports/d /etc/containerd/config.toml",
    "mkdir /models && mount --bind /models /mnt && echo '/models /mnt none bind 0 0' >>/etc/fstab && mv /models /old",
    "echo '/gone.img /srv ext4 loop 0 0' >>/etc/fstab",
)
MENDED = (
    "systemctl unmask ssh",
    "systemctl enable kubelet",
    "sed -i '1iimports = [\"/etc/containerd/conf.d/*.toml\"]' /etc/containerd/config.toml",
    "umount /mnt && sed -i '/^.models/d; /^.gone/d' /etc/fstab",
)
FOUND = [
    "will not come back: fstab: /srv: there is no /gone.img;",
    "will not come back: ssh.service runs and is masked;",
    "comes back ill: fstab: /mnt: there is no /models, and systemd makes an empty folder of that name;",
    "comes back ill: kubelet.service runs and is not enabled;",
    "comes back ill: the running containerd has, and its files have not: runtime nvidia;",
    "note: this is a container; kernel, boot loader and driver are those of its host",
    "next boot: bad (2 will not come back, 3 comes back ill)",
]


@pytest.fixture
def seeded(node: Node) -> Iterator[Node]:
    """A node equipped with well daemons, which loses its seeded faults again however the test ends."""
    equip(node)
    yield node
    do(node, *MENDED)


def said(cure: Cure) -> tuple[tuple[str, str | None], list[str]]:
    """Run it, and return how it ended and what it said."""
    run = cure.request("next-boot")
    ended = ending(cure.end(run))
    return ended, cure.said(run, "comes-back", kind=ScriptKind.VERIFY).splitlines()


def state(node: Node) -> dict[str, list[str]]:
    """Return what a look could have changed."""
    etc = node.run(["find", "/etc", "-type", "f", "-newer", "/run/before"]).stdout.splitlines()
    return {"units": unit_files(node), "etc": sorted(etc), "mounts": mounts(node)}


def test_faults_that_sleep_are_told_while_the_node_is_well_and_nothing_is_changed(cure: Cure, seeded: Node) -> None:
    well = said(cure)
    do(seeded, *SEEDED, "sleep 1.1; touch /run/before")
    before = state(seeded)

    ill = said(cure)

    assert well == (("succeeded", "well"), [FOUND[-2], "next boot: good"])
    assert ill[0] == ("failed", "not_cured")
    assert [line[: len(text)] for line, text in zip(ill[1], FOUND, strict=True)] == FOUND
    assert state(seeded) == before


def test_a_stuck_mount_does_not_make_the_look_hang(cure: Cure, node: Node) -> None:
    with StuckConnection(node) as stuck:
        where = stuck.mountpoint
        do(node, f"cp /etc/fstab /run/fstab; echo 'remote: {where} fuse.lab rw,_netdev 0 0' >>/etc/fstab")
        do(node, f"echo '{where}/x /mnt none bind 0 0' >>/etc/fstab")

        try:
            ended, lines = said(cure)
        finally:
            do(node, "cat /run/fstab >/etc/fstab")

        assert stuck.reader_state() == "D"
    told = [line.partition(";")[0] for line in lines if not line.startswith("note: ")]
    assert told == [
        f"comes back ill: fstab: {where}: its server answers nobody now",
        f"could not look: fstab: /mnt: {where}/x is on a mount that may hang",
        "next boot: bad (1 comes back ill, 1 could not look)",
    ]
    assert ended == ("failed", "not_cured")


def test_a_boot_that_is_foretold_to_fail_waits_for_a_second_person(
    tmp_path: Path, node: Node, executor: ExecutorKind
) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("strict.sh", "next_boot.sh"):
        (tmp_path / "lib" / name).write_text(Path("runbooks/lib", name).read_text())
    (tmp_path / "boot.yaml").write_text(example())
    built = Cure.build(tmp_path, node, executor=executor, runbooks=tmp_path)
    do(node, "systemctl mask ssh")

    try:
        run = built.request("boot")
        built.to_gate(run, "reboot-despite-preview")
        (gate,) = built.world.open_gates()
        node_run = built.deny(run, "reboot-despite-preview")
    finally:
        do(node, "systemctl unmask ssh")

    assert [target.split(":")[0] for target in gate.targets[1:]] == ["will not come back"]
    assert outcomes(node_run) == {"evidence": "ok", "reboot": "ok", "reboot-despite-preview": "denied"}
    built.close()


def example() -> str:
    """Return the runbook that docs/runbooks.md shows, whose `run` boots nothing here."""
    text = Path("docs/runbooks.md").read_text().split("### Before a reboot")[1]
    steps = text.split("```yaml\n")[1].split("```")[0]
    head = "schema: 1\nname: boot\ntitle: Boot it\nowner: tests\ndescription: Boots a node.\n"
    return head + steps.replace("systemd-run --on-active=3s systemctl reboot", "echo boots")
