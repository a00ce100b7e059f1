"""What sleeps on a node until it boots, seeded on a booted one: twelve faults, and as many changes that do no harm.

A node of these tests runs two made-up daemons beside its sshd: a kubelet, and a containerd that reads its files when it
starts, as the real one does, with a crictl that tells what it has read. Kernel and boot loader are not a container's
own; their faults stand in test_next_boot_scripts.py.
"""

import subprocess
from dataclasses import dataclass

from lab.nodes import Node
from lab.process import wait_until
from lab.sshd import greets

FILES = {
    "/usr/local/bin/containerd": r"""#!/bin/bash
file=/etc/containerd/config.toml
dump() {
  cat "$file" || exit 1
  ! grep -q '^imports' "$file" || cat /etc/containerd/conf.d/*.toml
}
case $* in
  *'config dump') dump ;;
  *) dump >/run/containerd.read; exec sleep infinity ;;
esac
""",
    "/usr/local/bin/crictl": r"""#!/bin/bash
[[ $* == *info ]] || exit 1
echo '{ "config": { "containerd": {'
echo '  "defaultRuntimeName": "runc",'
echo '  "runtimes": {'
sed -n 's/^\[.*\.runtimes\.\([a-z]*\)\]$/    "\1": {\n    },/p' /run/containerd.read
echo '  }'
echo '} } }'
""",
    "/usr/local/bin/kubelet": "#!/bin/bash\nexec sleep infinity\n",
    "/etc/systemd/system/containerd.service": "[Service]\nType=exec\nExecStart=/usr/local/bin/containerd\n"
    "[Install]\nWantedBy=multi-user.target\n",
    "/etc/systemd/system/kubelet.service": "[Service]\nType=exec\nExecStart=/usr/local/bin/kubelet\n"
    "[Install]\nWantedBy=multi-user.target\n",
    "/etc/containerd/config.toml": 'imports = ["/etc/containerd/conf.d/*.toml"]\n[plugins.cri.containerd]\n'
    'default_runtime_name = "runc"\n[plugins.cri.containerd.runtimes.runc]\n',
    "/etc/containerd/conf.d/99-nvidia.toml": "[plugins.cri.containerd.runtimes.nvidia]\n",
}
#: What a node of these tests does when it is well; each line must succeed.
WELL = (
    "systemctl is-active kubelet",
    "systemctl is-active containerd",
    "crictl info | grep nvidia",
    "[ ! -e /mounts ] || xargs -n 1 findmnt --noheadings --mountpoint </mounts",
    "[ ! -e /files ] || xargs -n 1 test -e </files",
)
LOST, ILL, GOOD = "will not come back", "comes back ill", "good"


@dataclass(frozen=True)
class Seed:
    """A change of a node that runs on as before, and what becomes of it at the boot."""

    name: str
    commands: tuple[str, ...]
    becomes: str
    #: How the finding begins that tells of it; empty: nothing worse than a note.
    finding: str = ""


def _unit(what: str, *, kind: str = "none", options: str = "defaults") -> str:
    text = (
        rf"[Mount]\nWhat={what}\nWhere=/data\nType={kind}\nOptions={options}\n[Install]\nRequiredBy=local-fs.target\n"
    )
    return f"printf '{text}' >/etc/systemd/system/data.mount"


FAULTS = (
    Seed("the unit of sshd is masked", ("systemctl mask ssh",), LOST, "ssh.service runs and is masked"),
    Seed("sshd is disabled", ("systemctl disable ssh",), LOST, "ssh.service runs and is not enabled"),
    Seed(
        "sshd is enabled until the boot",
        ("systemctl disable ssh", "systemctl enable --runtime ssh"),
        LOST,
        "ssh.service runs and is not enabled",
    ),
    Seed("the next boot is a rescue", ("systemctl set-default rescue.target",), LOST, "the next boot goes to rescue"),
    Seed("sshd's file is wrong", ("echo NoSuchWord yes >>/etc/ssh/sshd_config",), LOST, "sshd refuses its files"),
    Seed(
        "fstab names a folder that was moved away",
        (
            "mkdir /models && touch /models/a && mount --bind /models /mnt && echo /mnt/a >/files",
            "echo '/models /mnt none bind 0 0' >>/etc/fstab",
            "mv /models /old",
        ),
        ILL,
        "fstab: /mnt: there is no /models, and systemd makes an empty folder",
    ),
    Seed(
        "fstab names an image that is gone",
        ("echo '/gone.img /mnt ext4 loop 0 0' >>/etc/fstab",),
        LOST,
        "fstab: /mnt: there is no /gone.img",
    ),
    Seed(
        "a required mount unit has no helper",
        (_unit("remote:", kind="rclone"), "systemctl enable data.mount"),
        LOST,
        "data.mount: /data: nothing here mounts the type rclone",
    ),
    Seed(
        "fstab names a server and has no helper",
        ("echo '192.0.2.1:/x /mnt nfs defaults 0 0' >>/etc/fstab", "echo /mnt >/mounts"),
        ILL,
        "fstab: /mnt: nothing here mounts the type nfs",
    ),
    Seed("the kubelet is disabled", ("systemctl disable kubelet",), ILL, "kubelet.service runs and is not enabled"),
    Seed(
        "the drop-in of containerd is imported no more",
        ("sed -i /^imports/d /etc/containerd/config.toml",),
        ILL,
        "the running containerd has, and its files have not: runtime nvidia",
    ),
    Seed(
        "the unit of the kubelet names a program that is not there",
        ("sed -i s,bin/kubelet,bin/kubelet2, /etc/systemd/system/kubelet.service",),
        ILL,
        "the unit kubelet.service changed after its start and is refused",
    ),
)
HEALTHY = (
    Seed("nothing was changed", ("true",), GOOD),
    Seed("a mask that ends with the boot", ("systemctl mask --runtime ssh",), GOOD),
    Seed("sshd comes by its socket", ("systemctl disable ssh", "systemctl enable ssh.socket"), GOOD),
    Seed("a folder that may fail", ("echo '/gone /mnt none bind,nofail 0 0' >>/etc/fstab",), GOOD),
    Seed("a folder that nobody mounts", ("echo '/gone /mnt none bind,noauto 0 0' >>/etc/fstab",), GOOD),
    Seed("a disk, which a container leaves out", ("echo '/dev/gone /mnt ext4 rw 0 0' >>/etc/fstab",), GOOD),
    Seed("a folder that is there", ("echo '/usr /mnt none bind 0 0' >>/etc/fstab", "echo /mnt >/mounts"), GOOD),
    Seed("a new tmpfs", ("echo 'tmpfs /mnt tmpfs size=1M 0 0' >>/etc/fstab", "echo /mnt >/mounts"), GOOD),
    Seed(
        "a required mount unit that works",
        ("mkdir /source", _unit("/source", options="bind"), "systemctl enable --now data.mount", "echo /data >/mounts"),
        GOOD,
    ),
    Seed(
        "a unit that was changed for the better",
        ("sed -i '/Service/aRestart=always' /etc/systemd/system/kubelet.service",),
        GOOD,
    ),
    Seed(
        "a runtime that the running containerd has not read",
        ("echo '[plugins.cri.containerd.runtimes.kata]' >/etc/containerd/conf.d/kata.toml",),
        GOOD,
    ),
    Seed("a word that sshd knows", ("echo MaxAuthTries 5 >>/etc/ssh/sshd_config",), GOOD),
)


def equip(node: Node) -> None:
    """Put the made-up daemons on a node and start them."""
    for name, text in FILES.items():
        path = node.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if "/bin/" in name else 0o644)
    # What changes within the second of the start is not told from what was there before.
    do(node, "systemctl daemon-reload", "systemctl enable --now containerd kubelet", "sleep 2")
    wait_until(lambda: is_well(node), "its daemons are well")


def do(node: Node, *commands: str) -> None:
    """Run shell on the node; each line must succeed."""
    for command in commands:
        done = node.run(["bash", "-c", command])
        assert done.returncode == 0, (command, done.stderr)


def is_well(node: Node) -> bool:
    """Tell whether all is there that the node is for."""
    return all(node.run(["bash", "-c", command]).returncode == 0 for command in WELL)


def boot(node: Node) -> str:
    """Really boot the node, wait until it has come to rest, and return what has become of it."""
    before = node.boot_id
    node.run(["systemctl", "reboot"])

    def rests() -> bool:
        try:
            if node.boot_id == before:
                return False
            said = node.run(["systemctl", "is-system-running"], seconds=10).stdout.strip()
        except (FileNotFoundError, ProcessLookupError, subprocess.TimeoutExpired):
            return False
        return said in ("running", "degraded", "maintenance")

    wait_until(rests, f"{node.name} has booted and comes to rest", seconds=240)
    if not greets(node.address, node.port):
        return LOST
    return GOOD if is_well(node) else ILL
