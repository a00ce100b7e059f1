"""A real sshd on loopback, inside namespaces of its own that look like a booted machine to the envelope.

PID 1 there is a shell that is called systemd, /run is empty, the boot_id is the test's, and so are the users. That
is enough for `view: boot`; machines that really boot are in lab/nodes.py.
"""

import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.ports import free_port
from service.domain.node import Confine, Endpoint, ExecutorKind, View

_USERS = """\
root:*:0:0:root:/root:/bin/bash
sshd:*:105:65534::/run/sshd:/usr/sbin/nologin
alice:*:1000:1000::/:/bin/bash
carol:*:1001:1001::/:/bin/bash
erin:*:1002:1002::/:/bin/bash
unstick:*:900:900::/:/bin/bash
locked:*:901:901::/:/usr/sbin/nologin
nobody:*:65534:65534::/:/usr/sbin/nologin
"""
_SUDOERS = "root ALL=(ALL) ALL\nunstick ALL=(root) NOPASSWD: ALL\nalice ALL=(root) NOPASSWD: ALL\n"
_INIT = """\
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd
# Users other than root cannot look into the folder of a test.
cp "$1/authorized" /run/authorized
if [ -d "$1/bin" ]; then cp -a "$1/bin" /run/bin; fi
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/sudoers" /etc/sudoers
mount -t tmpfs -o mode=755 tmpfs /var/lib/systemd
mkdir /var/lib/systemd/linger
touch /var/lib/systemd/linger/alice /var/lib/systemd/linger/erin
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
/usr/sbin/sshd -D -f "$1/sshd_config" -E "$1/log" &
set +e
while :; do wait -n || sleep 0.2; done
"""


def make_key(path: Path, kind: str = "ed25519", *options: str) -> Path:
    """Make a key pair and return the private file."""
    if kind == "rsa" and "-b" not in options:
        options = ("-b", "2048", *options)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "test", *options, "-f", str(path)], check=True, timeout=60
    )
    return path


def sign(authority: Path, public: Path, *options: str) -> Path:
    """Sign a public key and return the certificate."""
    subprocess.run(
        ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", *options, str(public)], check=True, timeout=60
    )
    return public.with_name(public.name.removesuffix(".pub") + "-cert.pub")


class Sshd:
    """One sshd; what it needs lies in its folder."""

    address = "127.0.79.1"

    def __init__(
        self, folder: Path, *, settings: Sequence[str] = (), kinds: Sequence[str] = ("ed25519",), start: bool = True
    ) -> None:
        """Make keys and settings, and start it."""
        self.folder = folder
        self.port = free_port(self.address)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        for kind in kinds:
            make_key(folder / f"host_{kind}", kind)
        self.key_file = make_key(folder / "user_key")
        (folder / "authorized").write_text((folder / "user_key.pub").read_text())
        (folder / "passwd").write_text(_USERS)
        (folder / "sudoers").write_text(_SUDOERS)
        (folder / "sudoers").chmod(0o440)
        self.write_settings(settings, kinds=kinds)
        shutil.copy("/bin/bash", folder / "systemd")
        self._process: subprocess.Popen[bytes] | None = None
        if start:
            self.boot()

    def write_settings(self, settings: Sequence[str], *, kinds: Sequence[str] = ("ed25519",)) -> None:
        """Write sshd_config; the first word of a setting wins."""
        lines = [
            *settings,
            f"ListenAddress {self.address}:{self.port}",
            *(f"HostKey {self.folder}/host_{kind}" for kind in kinds),
            "AuthorizedKeysFile /run/authorized",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "MaxStartups 200",
            "PrintMotd no",
            "SetEnv HOME=/nonexistent",
            "LogLevel VERBOSE",
        ]
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")

    def boot(self, *, boot_id: str | None = None) -> None:
        """Start the machine, with a new boot_id and an empty /run."""
        (self.folder / "boot_id").write_text(f"{boot_id or uuid.uuid4()}\n")
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child=KILL",
             "--mount-proc", "--propagation", "private", str(self.folder / "systemd"), "-c", _INIT, "systemd",
             str(self.folder)],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self._wait_for_banner()

    def power_off(self) -> None:
        """End every process of the machine at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def reboot(self) -> None:
        """End everything and start anew."""
        self.power_off()
        self.boot()

    @property
    def boot_id(self) -> str:
        """Return the boot_id that scripts see."""
        return (self.folder / "boot_id").read_text().strip()

    @property
    def host_key(self) -> str:
        """Return the first host key as an inventory has it."""
        return self.public("host_ed25519")

    @property
    def log(self) -> str:
        """Return what sshd has logged."""
        return (self.folder / "log").read_text()

    def public(self, name: str) -> str:
        """Return the public half of a key in the folder."""
        return " ".join((self.folder / f"{name}.pub").read_text().split()[:2])

    def endpoint(self, **words: object) -> Endpoint:
        """Return how to reach it, with some words changed."""
        values: dict[str, object] = {
            "name": "gpu-01",
            "executor": ExecutorKind.SSH,
            "address": self.address,
            "port": self.port,
            "key_file": str(self.key_file),
            "host_keys": (self.host_key,),
            "view": View.BOOT,
            "confine": Confine.OFF,
        }
        return Endpoint(**(values | words))  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        """Return the sshd itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Power it off."""
        self.power_off()

    def _wait_for_banner(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with socket.create_connection((self.address, self.port), timeout=5) as sock:
                    if sock.recv(4) == b"SSH-":
                        return
            except OSError:
                pass
            time.sleep(0.05)
        log = self.log if (self.folder / "log").exists() else "no log"
        raise RuntimeError(f"sshd did not start: {log}")
