"""A node of files whose next boot is good, for the preview: kernel, GRUB, fstab, units, containerd, packages."""

import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.fake_node import FakeNode, Said

KERNEL, OLD_KERNEL = "6.1.0-30-amd64", "6.1.0-29-amd64"
ROOT = "29 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw,errors=remount-ro\n"
UP_SECONDS = 10_000
GRUB = """\
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
   set next_entry=
else
   set default="{default}"
fi
function load_video {{
  insmod vbe
}}
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {{
\tlinux\t/boot/vmlinuz-6.1.0-30-amd64 root=UUID=1 ro quiet
\tinitrd\t/boot/initrd.img-6.1.0-30-amd64
}}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-1' {{
\tmenuentry 'Debian, with Linux 6.1.0-30' --class debian $menuentry_id_option 'gnulinux-6.1.0-30-advanced-1' {{
\t\tlinux\t/boot/vmlinuz-6.1.0-30-amd64 root=UUID=1 ro quiet
\t\tinitrd\t/boot/initrd.img-6.1.0-30-amd64
\t}}
\tmenuentry 'Debian, with Linux 6.1.0-29' --class debian $menuentry_id_option 'gnulinux-6.1.0-29-advanced-1' {{
\t\tlinux\t/boot/vmlinuz-6.1.0-29-amd64 root=UUID=1 ro quiet
\t\tinitrd\t/boot/ucode.img /boot/initrd.img-6.1.0-29-amd64
\t}}
}}
"""
#: What both versions of the table look like; github.com/containerd/containerd/issues/10132 shows the second.
DUMP = """\
version = 2
[plugins]
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "{default}"
    [plugins."io.containerd.grpc.v1.cri".containerd.default_runtime]
      runtime_type = ""
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]
"""
RUNTIME = """\
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}]
        runtime_type = "io.containerd.runc.v2"
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}.options]
          BinaryName = ""
          SystemdCgroup = {systemd}
"""
INFO = """\
{{
  "status": {{}},
  "config": {{
    "containerd": {{
      "defaultRuntimeName": "{default}",
      "defaultRuntime": {{
        "runtimeType": ""
      }},
      "runtimes": {{
{runtimes}
      }},
      "noPivot": false
    }},
    "systemdCgroup": false
  }}
}}
"""
INFO_RUNTIME = """\
        "{name}": {{
          "runtimeType": "io.containerd.runc.v2",
          "options": {{
            "BinaryName": "",
            "SystemdCgroup": {systemd}
          }},
          "cniConfDir": ""
        }}"""


def dump(*names: str, default: str = "runc", systemd: str = "true") -> str:
    """Return what `containerd config dump` says of these runtimes."""
    return DUMP.format(default=default) + "".join(RUNTIME.format(name=name, systemd=systemd) for name in names)


def info(*names: str, default: str = "runc", systemd: str = "true") -> str:
    """Return what `crictl info` says of these runtimes."""
    runtimes = ",\n".join(INFO_RUNTIME.format(name=name, systemd=systemd) for name in names)
    return INFO.format(default=default, runtimes=runtimes)


@dataclass
class Unit:
    """One unit as systemctl tells of it."""

    loaded: str = "loaded"
    active: str = "active"
    enabled: str = "enabled"
    reload: str = "no"
    wanted: str = "multi-user.target"
    #: How long ago it was started. The files of this node are new: for a longer one they changed since.
    seconds: int = 0


class FakeBoot:
    """The node, with ssh, kubelet and containerd, whose preview says nothing but `good`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fake = FakeNode(folder, "next-boot", places={"\ndisk=\n": f"\ndisk={folder}\n"})
        self.units = {name: Unit() for name in ("ssh", "kubelet", "containerd")}
        self.write("proc/self/mountinfo", ROOT)
        self.write("proc/self/cgroup", "0::/user.slice/user-0.slice/session-4.scope\n")
        self.write("proc/uptime", f"{UP_SECONDS}.00 1.00\n")
        self.write("proc/filesystems", "nodev\ttmpfs\n\text4\n")
        self.write("etc/fstab", "# <what> <where>\nUUID=1 / ext4 errors=remount-ro 0 1\n")
        self.write("dev/disk/by-uuid/1")
        self.write("boot/grub/grub.cfg", GRUB.format(default="0"))
        for version in (KERNEL, OLD_KERNEL):
            self.write(f"boot/vmlinuz-{version}", "MZ")
            self.write(f"boot/initrd.img-{version}", "070701 and more")
            self.write(f"lib/modules/{version}/modules.dep", "kernel/fs/xfs/xfs.ko:\n")
        self.write("var/lib/dpkg/status", "Package: bash\nStatus: install ok installed\n")
        self.write("etc/containerd/config.toml", 'imports = ["/etc/containerd/conf.d/*.toml"]\n')
        self.programs()
        self.containerd(dump("runc", "nvidia"), info("runc", "nvidia"))

    def programs(self) -> None:
        """Put the programs there that the preview asks."""
        self.fake.has("systemd-detect-virt", "exit 1")
        self.fake.has("uname", f"echo {KERNEL}")
        self.fake.has("stat", "echo 1000000 4096 100000 200000")
        self.fake.has("systemd-analyze", "exit 0")
        self.fake.has("sshd", "exit 0")
        self.fake.has("lsinitramfs", "exit 0")
        self.fake.has("dkms", f"echo nvidia/550.54.15, {OLD_KERNEL}, x86_64: installed")
        self.systemctl()

    def systemctl(self, *, default: str = "graphical.target", shows: str = "") -> None:
        """Let systemctl answer by the units there are."""
        self.default, self.shows = default, shows

    def containerd(self, files: str, runs: str) -> None:
        """Let containerd's files say the one, and the running one the other."""
        for name, text in (("dump", files), ("info", runs)):
            (self.folder / name).write_text(text)
        self.fake.has("containerd", f"cat {self.folder}/dump")
        self.fake.has("crictl", f"cat {self.folder}/info")

    def write(self, name: str, text: str = "") -> Path:
        """Write a file of the node."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def mount(self, where: str, *, device: str = "0:60", kind: str = "fuse.rclone") -> None:
        """Add a line to the mount table."""
        table = self.folder / "proc/self/mountinfo"
        table.write_text(f"{table.read_text()}60 29 {device} / {where} rw shared:9 - {kind} remote: rw\n")

    def fstab(self, line: str) -> None:
        """Add a line to fstab."""
        table = self.folder / "etc/fstab"
        table.write_text(f"{table.read_text()}{line}\n")

    def preview(self, *points: str) -> Said:
        """Return the preview, or only some points of it."""
        return self.shell(f"boot_points=({' '.join(points)})\nnext_boot" if points else "next_boot")

    def shell(self, body: str, targets: tuple[str, ...] = ()) -> Said:
        """Run shell after the prelude."""
        self._tell()
        return self.fake.shell(body, targets)

    def _tell(self) -> None:
        now = time.time()
        (self.folder / "shown").write_text("\n".join(self._show(name, unit) for name, unit in self.units.items()))
        states = "".join(f"{name}.service) said={unit.enabled} ;;\n" for name, unit in self.units.items())
        uptime = self.folder / "proc/uptime"
        uptime.write_text(f"{UP_SECONDS + now % 1:.2f} 1.00\n")
        self.fake.has(
            "systemctl",
            f"""case $1 in
              show) {self.shows or f"case $* in *ExecStart*) echo ;; *) cat {self.folder}/shown ;; esac"} ;;
              get-default) echo {self.default} ;;
              is-enabled) said=disabled; case $2 in {states} ssh.socket) said=$(cat {self.folder}/socket) ;; esac
                echo $said; case $said in enabled | alias | static) ;; *) exit 1 ;; esac ;;
            esac""",
        )

    def _show(self, name: str, unit: Unit) -> str:
        file = f"/lib/systemd/system/{name}.service"
        if not (self.folder / file.lstrip("/")).exists():
            self.write(file.lstrip("/"), "[Service]\n")
        told = {
            "Id": f"{name}.service",
            "WantedBy": unit.wanted,
            "RequiredBy": "",
            "LoadState": unit.loaded,
            "ActiveState": unit.active,
            "FragmentPath": file,
            "NeedDaemonReload": unit.reload,
            "ActiveEnterTimestampMonotonic": str((UP_SECONDS - unit.seconds) * 1_000_000),
        }
        return "".join(f"{key}={value}\n" for key, value in told.items())
