"""The next-boot preview on nodes of files: one fault each, and what is said of it. Kernel, boot loader and /boot are
seen here alone, because a booted container has none of its own."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fake_boot import GRUB, KERNEL, OLD_KERNEL, FakeBoot, Unit, dump, info

GOOD = "next boot: good\n"
Fault = Callable[[FakeBoot], object]


@pytest.fixture
def node(tmp_path: Path) -> FakeBoot:
    return FakeBoot(tmp_path)


def findings(node: FakeBoot, *points: str) -> list[str]:
    """Return every finding of these points, without the last line."""
    said = node.preview(*points)
    assert said.code == 0, said.output
    lines = said.output.splitlines()
    assert lines[-1].startswith("next boot: ")
    return lines[:-1]


def test_a_node_that_comes_back_has_no_finding(node: FakeBoot) -> None:
    said = node.preview()

    assert (said.code, said.output) == (0, GOOD)


HARMLESS = (
    "/dev/sdz1 /data ext4 noauto 0 2",
    "/dev/sdz1 /data ext4 noauto,x-systemd.automount 0 2",
    "/dev/sdz1 /more ext4 x-systemd.automount 0 2",
    "tmpfs /scratch tmpfs size=1G 0 0",
    "/dev/disk/by-uuid/1 /data xfs defaults 0 2",
    "/etc /mnt none bind 0 0",
    "# /dev/sdz1 /data ext4 rw 0 2",
)
#: What is wrong, and how its finding begins.
FSTAB = {
    "UUID=2 /data ext4 defaults 0 2": "will not come back: fstab: /data: there is no /dev/disk/by-uuid/2 (UUID=2)",
    'LABEL="a\\040b" /data ext4 rw 0 2': "will not come back: fstab: /data: there is no /dev/disk/by-label/a\\x20b",
    "/dev/sdz1 /data xfs defaults": "will not come back: fstab: /data: there is no /dev/sdz1",
    "/dev/sdz1 /data xfs defaults,nofail": "note: fstab: /data: there is no /dev/sdz1",
    "/dev/sdz1 /data xfs defaults,_netdev": "comes back ill: fstab: /data: there is no /dev/sdz1",
    "/dev/sdz2 none swap sw": "note: fstab: none: there is no /dev/sdz2",
    "/no/such /mnt none bind": "comes back ill: fstab: /mnt: there is no /no/such, and systemd makes an empty folder",
    "/no/such.img /mnt ext4 loop": "will not come back: fstab: /mnt: there is no /no/such.img",
    "/dev/disk/by-uuid/1 /x zfs2 rw": "will not come back: fstab: /x: nothing here mounts the type zfs2",
    "10.0.0.1:/x /nfs nfs rw,nofail": "note: fstab: /nfs: nothing here mounts the type nfs",
    "s3: /bucket fuse.s3fs rw": "will not come back: fstab: /bucket: nothing here mounts the type fuse.s3fs",
    "/stuck/x /mnt none bind": "could not look: fstab: /mnt: /stuck/x is on a mount that may hang",
}


def test_a_line_of_fstab_that_cannot_be_mounted_is_told_by_what_it_stops(node: FakeBoot) -> None:
    node.mount("/stuck")
    for line in FSTAB:
        node.fstab(line)

    found = findings(node, "mounts")

    expected = [
        text for how in ("will", "comes", "could", "note") for text in sorted(FSTAB.values()) if text.startswith(how)
    ]
    assert [one[: len(text)] for one, text in zip(found, expected, strict=True)] == expected


def test_a_line_that_stops_nothing_is_no_finding(node: FakeBoot) -> None:
    for line in HARMLESS:
        node.fstab(line)

    assert findings(node, "mounts") == []


def test_a_server_that_does_not_answer_is_told(node: FakeBoot) -> None:
    node.write("sbin/mount.nfs").chmod(0o755)
    node.fstab("127.0.0.1:/x /nfs nfs rw 0 0")

    (found,) = findings(node, "mounts")

    assert found.startswith("comes back ill: fstab: /nfs: the server 127.0.0.1 does not answer on port 2049;")


def test_a_mount_that_is_dead_now_is_told(node: FakeBoot) -> None:
    node.write("sbin/mount.fuse3").chmod(0o755)
    for where, device in (("/gone", "0:60"), ("/stuck", "0:61"), ("/works", "0:62")):
        node.mount(where, device=device)
        node.fstab(f"remote: {where} fuse.rclone rw,_netdev 0 0")
    for number, waiting in (("61", "3"), ("62", "0")):
        node.write(f"sys/fs/fuse/connections/{number}/waiting", waiting)
        node.write(f"proc/{number}/fdinfo/7", f"fuse_connection:\t{number}\n")
        (node.folder / f"proc/{number}/fd").mkdir()
        (node.folder / f"proc/{number}/fd/7").symlink_to("/dev/fuse")
    node.fstab("remote: /never fuse.rclone rw,_netdev 0 0")

    told = [found.partition(";")[0] for found in findings(node, "mounts")]

    assert told == [
        "comes back ill: fstab: /gone: its server is gone",
        "comes back ill: fstab: /never: it is not mounted now",
        "comes back ill: fstab: /stuck: its server answers nobody now",
    ]


def test_a_mount_unit_stops_the_boot_only_where_it_is_required(node: FakeBoot) -> None:
    for name, place in (("data", "local-fs.target.requires"), ("more", "multi-user.target.wants")):
        text = f"[Mount]\nWhat=/dev/sdz1\nWhere=/{name}\nType=ext4\n"
        file = node.write(f"etc/systemd/system/{name}.mount", text)
        link = node.folder / "etc/systemd/system" / place / file.name
        link.parent.mkdir()
        link.symlink_to(f"/etc/systemd/system/{file.name}")

    told = [found.partition(";")[0] for found in findings(node, "mounts")]

    assert told == [
        "will not come back: data.mount: /data: there is no /dev/sdz1",
        "comes back ill: more.mount: /more: there is no /dev/sdz1",
    ]


def _ssh(**changes: str) -> Fault:
    return lambda node: node.units.update(ssh=Unit(**changes))  # type: ignore[arg-type]


def _kubelet(**changes: str) -> Fault:
    return lambda node: node.units.update(kubelet=Unit(**changes))  # type: ignore[arg-type]


def _by_ssm(node: FakeBoot) -> None:
    node.write("proc/self/cgroup", "0::/system.slice/amazon-ssm-agent.service\n")
    node.units["ssh"] = Unit(enabled="disabled")


def _by_socket(node: FakeBoot) -> None:
    node.write("socket", "enabled")
    node.units["ssh"] = Unit(enabled="disabled")


def _linked_by_hand(node: FakeBoot) -> None:
    node.units["ssh"] = Unit(enabled="linked")
    link = node.folder / "usr/lib/systemd/system/multi-user.target.wants/ssh.service"
    link.parent.mkdir(parents=True)
    link.symlink_to("../ssh.service")


def _network(node: FakeBoot) -> None:
    node.units["systemd-networkd"] = Unit(enabled="disabled", wanted="")


def _netplan(node: FakeBoot) -> None:
    node.units["systemd-networkd"] = Unit(enabled="enabled-runtime", wanted="")
    node.write("etc/netplan/50-cloud-init.yaml")


def _generated(node: FakeBoot) -> None:
    node.units["kubelet"] = Unit(enabled="disabled")
    link = node.folder / "run/systemd/generator/multi-user.target.wants/kubelet.service"
    link.parent.mkdir(parents=True)
    link.symlink_to("/lib/systemd/system/kubelet.service")


def _sshd_refuses(node: FakeBoot) -> None:
    node.fake.has("sshd", "printf '/etc/ssh/sshd_config line 9: bad word\\r\\n'; exit 255")


def _rescue(node: FakeBoot) -> None:
    node.systemctl(default="rescue.target")


def _hangs(node: FakeBoot) -> None:
    node.systemctl(shows="echo 'Failed to get properties: Connection timed out'; exit 1")


UNITS: dict[str, tuple[Fault, list[str]]] = {
    "masked way in": (_ssh(enabled="masked"), ["will not come back: ssh.service runs and is masked"]),
    "disabled way in": (_ssh(enabled="disabled"), ["will not come back: ssh.service runs and is not enabled"]),
    "enabled in /run": (_ssh(enabled="enabled-runtime"), ["will not come back: ssh.service runs and is not enabled"]),
    "masked in /run": (_ssh(enabled="masked-runtime"), []),
    "failed way in": (_ssh(active="failed"), ["will not come back: ssh.service has failed now"]),
    "stopped on purpose": (_ssh(active="inactive", enabled="disabled"), []),
    "not our way in": (_by_ssm, ["comes back ill: ssh.service runs and is not enabled"]),
    "started by its socket": (_by_socket, ["note: ssh.service is started by ssh.socket"]),
    "linked by hand": (_linked_by_hand, []),
    "wanted by another": (
        _kubelet(enabled="disabled", wanted="gpu-node.service"),
        ["note: kubelet.service is started by gpu-node.service"],
    ),
    "kubelet masked": (_kubelet(enabled="masked"), ["comes back ill: kubelet.service runs and is masked"]),
    "kubelet in a loop": (_kubelet(active="activating"), ["comes back ill: kubelet.service is not up"]),
    "kubelet stopped": (_kubelet(active="inactive"), ["note: kubelet.service does not run now and will start"]),
    "no such unit": (_kubelet(loaded="not-found", active="inactive", enabled="not-found"), []),
    "unknown word": (_kubelet(enabled="sleeping"), ["could not look: is kubelet.service enabled: sleeping"]),
    "network": (_network, ["will not come back: systemd-networkd.service runs and is not enabled"]),
    "network made by netplan": (_netplan, []),
    "made anew by a generator": (_generated, []),
    "sshd refuses its files": (
        _sshd_refuses,
        ["will not come back: sshd refuses its files: /etc/ssh/sshd_config line 9: bad word"],
    ),
    "rescue": (_rescue, ["will not come back: the next boot goes to rescue.target"]),
    "systemd does not answer": (
        _hangs,
        ["could not look: changes", "could not look: containerd", "could not look: services"],
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_what_runs_and_will_not_start_is_told_by_whether_we_come_in_by_it(node: FakeBoot, name: str) -> None:
    fault, expected = UNITS[name]
    fault(node)

    found = findings(node, "target", "services", *(["changes", "containerd"] if fault is _hangs else []))

    assert [one[: len(text)] for one, text in zip(found, expected, strict=True)] == expected


def test_a_unit_that_changed_after_its_start_is_a_note_and_a_broken_one_is_not(node: FakeBoot) -> None:
    node.units["kubelet"] = Unit(seconds=5_000)
    node.units["ssh"] = Unit(reload="yes")

    changed = [found.partition(" /")[0] for found in findings(node, "changes")]
    node.fake.has("systemd-analyze", 'echo "$4:3: Invalid section header"; exit 1')
    broken = [found.partition(";")[0] for found in findings(node, "changes")]

    assert changed == [
        "note: changed on disk, not loaded: ssh.service; they count from the next boot on",
        "note: the unit kubelet.service changed after its start",
        "note: the unit ssh.service changed after its start ; it starts anew with the boot",
    ]
    why = "changed after its start and is refused: "
    assert [text.partition(why)[0] + why for text in broken[:2]] == [
        f"will not come back: the unit ssh.service {why}",
        f"comes back ill: the unit kubelet.service {why}",
    ]


CONTAINERD: dict[str, tuple[str, str, list[str]]] = {
    "the drop-in is imported no more": (
        dump("runc"),
        info("nvidia", "runc"),
        ["comes back ill: the running containerd has, and its files have not: nvidia SystemdCgroup true, runtime"],
    ),
    "another default": (
        dump("nvidia", "runc"),
        info("nvidia", "runc", default="nvidia"),
        [
            "comes back ill: the running containerd has, and its files have not: default nvidia;",
            "note: only in containerd's files: default runc;",
        ],
    ),
    "another driver of control groups": (
        dump("runc", systemd="false"),
        info("runc"),
        [
            "comes back ill: the running containerd has, and its files have not: runc SystemdCgroup true;",
            "note: only in containerd's files: runc SystemdCgroup false;",
        ],
    ),
    "a drop-in that nobody has read": (
        dump("nvidia", "runc"),
        info("runc"),
        ["note: only in containerd's files: nvidia SystemdCgroup true, runtime nvidia;"],
    ),
    "the newer form": (
        dump("nvidia", "runc").replace('"', "'").replace("grpc.v1.cri", "cri.v1.runtime"),
        info("nvidia", "runc"),
        [],
    ),
    "an answer of another form": (
        dump("runc"),
        '{"config":{}}\n',
        ["could not look: crictl tells no runtime that containerd runs with;"],
    ),
}


@pytest.mark.parametrize("name", CONTAINERD)
def test_what_the_running_containerd_has_is_compared_with_its_files(node: FakeBoot, name: str) -> None:
    files, runs, expected = CONTAINERD[name]
    node.containerd(files, runs)

    found = findings(node, "containerd")

    assert [one[: len(text)] for one, text in zip(found, expected, strict=True)] == expected


def test_files_that_containerd_refuses_and_a_crictl_that_is_silent(node: FakeBoot) -> None:
    node.fake.has("crictl", "echo 'connection refused'; exit 1")
    silent = findings(node, "containerd")
    node.fake.has("containerd", "echo 'containerd: failed to load TOML'; exit 1")
    refused = findings(node, "containerd")

    assert silent == ["could not look: crictl does not answer: connection refused; look by hand"]
    assert refused[0].startswith("comes back ill: containerd refuses its files: containerd: failed to load TOML;")


def test_without_crictl_only_files_older_than_the_start_are_believed(node: FakeBoot) -> None:
    (node.folder / "bin/crictl").unlink()
    before = findings(node, "containerd")
    node.units["containerd"] = Unit(seconds=5_000)
    after = findings(node, "containerd")

    assert before == []
    assert after[0].startswith("could not look: without crictl, what containerd runs with; its files changed after")


def _default(text: str, *, env: str = "") -> Fault:
    def fault(node: FakeBoot) -> None:
        node.write("boot/grub/grub.cfg", GRUB.format(default=text))
        node.write("boot/grub/grubenv", f"# GRUB Environment Block\n{env}\n")

    return fault


def _bls(node: FakeBoot) -> None:
    node.write("boot/grub/grub.cfg", "insmod blscfg\nblscfg\n")
    node.write("boot/grub/grubenv", "saved_entry=0123-6.1.0-29\n")
    entry = f"title x\nlinux /vmlinuz-{OLD_KERNEL}\ninitrd /initrd.img-{OLD_KERNEL} $tuned_initrd\n"
    node.write("boot/loader/entries/0123-6.1.0-29.conf", entry)


def _no_grub(node: FakeBoot) -> None:
    shutil.rmtree(node.folder / "boot/grub")


OTHER = f"note: the next kernel is {OLD_KERNEL}, not {KERNEL}"
DEFAULTS: dict[str, tuple[Fault, list[str]]] = {
    "the first": (_default("0"), []),
    "by number": (_default("1>1"), [OTHER]),
    "by id": (_default("gnulinux-advanced-1>gnulinux-6.1.0-29-advanced-1"), [OTHER]),
    "by title": (_default("Advanced options>Debian, with Linux 6.1.0-29"), [OTHER]),
    "saved": (_default("${saved_entry}", env="saved_entry=1>1"), [OTHER]),
    "saved nothing": (_default("${saved_entry}"), []),
    "once": (_default("0", env="next_entry=1>1"), [OTHER]),
    "a submenu": (_default("1"), ["could not look: which kernel GRUB boots next"]),
    "none such": (_default("7"), ["could not look: which kernel GRUB boots next"]),
    "boot loader entries": (_bls, [OTHER]),
    "no GRUB": (_no_grub, [f"note: no GRUB here; the newest kernel {KERNEL} is taken for the next"]),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_kernel_of_the_next_boot_is_the_one_that_grub_takes(node: FakeBoot, name: str) -> None:
    fault, expected = DEFAULTS[name]
    fault(node)

    found = findings(node, "kernel")

    assert [one[: len(text)] for one, text in zip(found, expected, strict=True)] == expected


def _loaded(node: FakeBoot) -> None:
    (node.folder / "sys/module/nvidia").mkdir(parents=True)


def _loaded_from_a_container(node: FakeBoot) -> None:
    _loaded(node)
    node.mount("/run/nvidia/driver", kind="overlay")


def _loaded_and_built(node: FakeBoot) -> None:
    _loaded(node)
    node.write(f"lib/modules/{KERNEL}/updates/dkms/nvidia.ko.xz")


def _initrd_refused(node: FakeBoot) -> None:
    node.fake.has("lsinitramfs", "exit 1")


def _space(said: str) -> Fault:
    return lambda node: node.fake.has(
        "stat", f"case $* in */boot) echo {said} ;; *) echo 1000000 4096 9 900000 ;; esac"
    )


def _many_inodes(node: FakeBoot) -> None:
    node.fake.has("stat", "echo 1000000 4096 12 900000")


def _root(options: str, kind: str = "ext4") -> Fault:
    line = f"29 1 259:1 / / {options} shared:1 - {kind} /dev/nvme0n1p1 {options}\n"
    return lambda node: node.write("proc/self/mountinfo", line)


def _errors(node: FakeBoot) -> None:
    node.write("sys/fs/ext4/nvme0n1p1/errors_count", "4\n")
    link = node.folder / "sys/dev/block/259:1"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../devices/nvme0n1/nvme0n1p1")


IMAGE, DISK = f"initrd.img-{KERNEL}", "/dev/nvme0n1p1"
DISKS: dict[str, tuple[Fault, list[str]]] = {
    "no kernel": (
        lambda node: (node.folder / f"boot/vmlinuz-{KERNEL}").unlink(),
        [f"will not come back: there is no kernel /boot/vmlinuz-{KERNEL}, which GRUB boots next"],
    ),
    "no initramfs": (
        lambda node: (node.folder / f"boot/{IMAGE}").unlink(),
        [f"will not come back: the initramfs /boot/{IMAGE} is missing or empty"],
    ),
    "an empty initramfs": (
        lambda node: node.write(f"boot/{IMAGE}"),
        [f"will not come back: the initramfs /boot/{IMAGE} is missing or empty"],
    ),
    "zeros for an initramfs": (
        lambda node: node.write(f"boot/{IMAGE}", "\0\0\0\0\0"),
        [f"will not come back: the initramfs /boot/{IMAGE} begins like nothing known (00000000)"],
    ),
    "half an initramfs": (
        _initrd_refused,
        [f"will not come back: the initramfs /boot/{IMAGE} cannot be read to its end"],
    ),
    "no modules": (
        lambda node: shutil.rmtree(node.folder / f"lib/modules/{KERNEL}"),
        [f"will not come back: there are no modules for the next kernel {KERNEL}"],
    ),
    "no driver": (
        _loaded,
        [f"comes back ill: no nvidia module for the next kernel {KERNEL} (dkms: nvidia/550.54.15, {OLD_KERNEL}"],
    ),
    "the driver is built": (_loaded_and_built, []),
    "the driver of a container": (_loaded_from_a_container, ["note: the driver comes from a container"]),
    "/boot is full": (
        _space("2000 4096 100000 200000"),
        ["comes back ill: / has less than 500 inodes left", "comes back ill: /boot has less than 20 MiB left"],
    ),
    "no inodes": (
        _many_inodes,
        ["comes back ill: / has less than 500 inodes left", "comes back ill: /boot has less than 500 inodes left"],
    ),
    "half-configured": (
        lambda node: node.write("var/lib/dpkg/status", "Package: linux-image\nStatus: install ok half-configured\n"),
        ["comes back ill: packages are not configured: linux-image half-configured"],
    ),
    "triggers alone": (
        lambda node: node.write("var/lib/dpkg/status", "Package: man-db\nStatus: install ok triggers-pending\n"),
        [],
    ),
    "interrupted": (lambda node: node.write("var/lib/dpkg/updates/0001"), ["comes back ill: dpkg was interrupted"]),
    "no dpkg": (lambda node: (node.folder / "var/lib/dpkg/status").unlink(), ["note: no dpkg here"]),
    "read-only": (_root("ro,relatime"), [f"will not come back: the root {DISK} is read-only"]),
    "degraded": (_root("rw,degraded", "btrfs"), [f"will not come back: the root {DISK} is mounted degraded"]),
    "errors on record": (_errors, [f"comes back ill: the root {DISK} has errors on record"]),
    "an array": (
        lambda node: node.write("proc/mdstat", "md0 : active raid1 sda1[0]\n      1000 blocks [2/1] [U_]\n"),
        ["comes back ill: the array md0 is degraded"],
    ),
    "a whole array": (
        lambda node: node.write("proc/mdstat", "md0 : active raid1 sda1[0] sdb1[1]\n      1000 blocks [2/2] [UU]\n"),
        [],
    ),
}


@pytest.mark.parametrize("name", DISKS)
def test_what_the_disk_lacks_for_the_next_boot_is_told(node: FakeBoot, name: str) -> None:
    fault, expected = DISKS[name]
    fault(node)

    found = findings(node, "root", "kernel", "space", "packages")

    assert [one[: len(text)] for one, text in zip(found, expected, strict=True)] == expected


class TestTheFunctionsOfARunbookThatReboots:
    def test_only_a_whole_preview_is_good_or_bad(self, node: FakeBoot) -> None:
        told = {}
        for text in (
            "next boot: good",
            "note: x; y\nnext boot: good",
            "next boot: bad (1 comes back ill)",
            "",
            "note: x; y",
            "next boot: good\nnote: next boot: bad",
        ):
            body = f"if next_boot_is_good $'{text!r:s}'; then echo good; fi".replace("''", "'")
            body += "\n" + body.replace("good", "bad")
            told[text] = node.shell(body).output.split()

        assert list(told.values()) == [["good"], ["good"], ["bad"], [], [], []]

    def test_an_accident_in_one_point_is_told_and_the_others_are_looked_at(self, node: FakeBoot) -> None:
        node.units["ssh"] = Unit(enabled="masked")
        (node.folder / "proc/uptime").unlink()

        said = node.shell(
            'boot_look_packages() { echo odd; false; echo never; }\npreview=$(next_boot)\necho "$preview"'
        )

        assert said.output.splitlines() == [
            "will not come back: ssh.service runs and is masked; systemctl unmask ssh.service, if it should start",
            "could not look: packages: odd; look by hand",
            "next boot: bad (1 will not come back, 1 could not look)",
        ]

    def test_the_targets_are_this_boot_and_each_reason(self, node: FakeBoot) -> None:
        node.units["ssh"] = Unit(enabled="masked")
        node.units["kubelet"] = Unit(active="inactive")

        said = node.shell('preview=$(next_boot)\nnext_boot_targets "$preview" >"$UNSTICK_TARGETS"')

        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert said.targets == (
            f"boot {boot}",
            "will not come back: ssh.service runs and is masked; systemctl unmask ssh.service, if it should start",
        )

    def test_a_reason_that_nobody_has_approved_sends_nothing(self, node: FakeBoot) -> None:
        run = 'boot_points=(services)\npreview=$(next_boot)\nnext_boot_still_approved "$preview" || exit\necho REBOOT'
        check = 'boot_points=(services)\npreview=$(next_boot)\nnext_boot_targets "$preview" >"$UNSTICK_TARGETS"'
        good = node.shell(check).targets
        node.units["ssh"] = Unit(enabled="masked")
        bad = node.shell(check).targets
        new = node.shell(run, good)
        seen = node.shell(run, bad)
        other_boot = node.shell(run, ("boot 0", *bad[1:]))

        assert (seen.code, seen.output) == (0, "REBOOT\n")
        assert (new.code, new.output) == (77, f"not approved: {bad[1]}\n")
        assert (other_boot.code, other_boot.output) == (77, f"not approved: {bad[0]}\n")

    def test_a_preview_that_was_cut_off_is_approved_by_nobody(self, node: FakeBoot) -> None:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

        said = node.shell("next_boot_still_approved '' || exit\necho REBOOT", (f"boot {boot}",))

        assert "REBOOT" not in said.output
        assert said.code != 0
