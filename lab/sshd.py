"""Plain sshd of this machine on loopback: many addresses, certificates, jump hosts, but no node behind them.

The user who logs in is the one who runs the tests. The scripts run on this machine itself, so only harmless ones.
"""

import os
import pwd
import secrets
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab import control_group, leftovers
from lab.certificate import Certificate, CertificateAuthority, make_key, public_key
from lab.closing import Closing
from lab.guardian import guarded_record
from lab.ports import free_port
from lab.process import Process, wait_until

SSHD = "/usr/sbin/sshd"
PREFIX = "127.0.78."
MOST = 250
PER_PROCESS = 16  # MAX_LISTEN_SOCKS of OpenSSH's sshd.c
ATTEMPTS = 5
CONFIG = """\
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserRC no
PrintMotd no
UseDNS no
MaxStartups 500
MaxSessions 100
LogLevel VERBOSE
Subsystem sftp internal-sftp
"""
# Of a separate server: a /run of its own, so that what scripts keep there is one folder per address.
OWN_RUN = 'mount -t tmpfs -o mode=755 tmpfs /run && mkdir -m 755 /run/sshd && exec "$@"'


@dataclass(frozen=True)
class SshServer:
    """One address that answers."""

    address: str
    port: int
    host_key: str  # public, as `ssh-ed25519 AAAA...`


class SshdFarm(Closing):
    """Some sshd processes under one port; `servers` names the addresses."""

    def __init__(
        self,
        addresses: int = 1,
        *,
        separate: bool = False,
        host_certificate: tuple[CertificateAuthority, Certificate] | None = None,
        user_ca: CertificateAuthority | None = None,
        more_config: Sequence[str] = (),
    ) -> None:
        """Start them and wait for all banners.

        `separate` (as root) gives each address its own process, host key and /run; otherwise 16 addresses share one.
        With `user_ca` its certificates may log in beside the farm's own `private_key`.
        """
        if not 1 <= addresses <= MOST:
            raise ValueError(f"1 to {MOST} addresses, not {addresses}")
        self._record = guarded_record(f"sshd-{os.getpid()}-{secrets.token_hex(4)}")
        self.folder = leftovers.run_folder() / self._record.name
        self._record.folders.append(str(self.folder))
        self._record.save()
        self._separate = separate
        self._host_certificate = host_certificate
        self._processes: list[subprocess.Popen[bytes]] = []
        self.user = pwd.getpwuid(os.getuid()).pw_name
        try:
            self._prepare(addresses, user_ca, more_config)
            self._start_on_a_free_port()
        except BaseException:
            self.close()
            raise

    @property
    def servers(self) -> list[SshServer]:
        """Give the addresses in order, each with the host key it shows now."""
        return [
            SshServer(address=address, port=self.port, host_key=public_key(self._host_key(number)))
            for number, group in enumerate(self._groups)
            for address in group
        ]

    def rekey(self) -> None:
        """Give every server a new host key on the same address and port, as a machine that was installed anew."""
        self._stop()
        for number in range(len(self._groups)):
            self._make_host_key(number)
        if not self._start():
            raise RuntimeError(f"port {self.port} was taken meanwhile: {self.log()}")

    def stop(self) -> None:
        """End all servers and their sessions; nobody listens on the port any more."""
        self._stop()

    def log(self) -> str:
        """Give what all servers have logged."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        """End all servers with their sessions and what they started, and remove the folder."""
        self._record.undo()
        self._reap()

    def _prepare(self, addresses: int, user_ca: CertificateAuthority | None, more_config: Sequence[str]) -> None:
        home = self.folder / "home"
        home.mkdir(parents=True)
        self.private_key = make_key(self.folder / "id_ed25519")
        allowed = self.folder / "authorized_keys"
        allowed.write_text(public_key(self.private_key) + "\n")
        lines = [f"AuthorizedKeysFile {allowed}", f"SetEnv HOME={home}", *more_config]
        if user_ca is not None:
            (self.folder / "user_ca.pub").write_text(user_ca.public_key + "\n")
            lines.append(f"TrustedUserCAKeys {self.folder / 'user_ca.pub'}")
        self._config = CONFIG + "".join(f"{line}\n" for line in lines)
        per_process = 1 if self._separate else PER_PROCESS
        names = [f"{PREFIX}{number}" for number in range(1, addresses + 1)]
        self._groups = [names[first : first + per_process] for first in range(0, addresses, per_process)]
        for number in range(len(self._groups)):
            self._make_host_key(number)
        if os.getuid() == 0:
            # What Debian's unit makes as its RuntimeDirectory; sshd does not start without it.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
            self._record.cgroups = [str(path) for path in control_group.names_for(self._record.name)]
            self._record.save()
            for cgroup in self._record.cgroups:
                Path(cgroup).mkdir()

    def _make_host_key(self, number: int) -> None:
        key = make_key(self._host_key(number))
        if self._host_certificate is not None:
            authority, certificate = self._host_certificate
            authority.sign(key, certificate)

    def _host_key(self, number: int) -> Path:
        return self.folder / f"host_key_{number}"

    def _start_on_a_free_port(self) -> None:
        for _ in range(ATTEMPTS):
            self.port = free_port("0.0.0.0")
            if self._start():
                return
            self._stop()
        raise RuntimeError(f"no free port for sshd: {self.log()}")

    def _start(self) -> bool:
        """Start all and wait for their banners; False if one could not have its port."""
        for number, group in enumerate(self._groups):
            self._start_one(number, group)
        self._record.save()
        waiting = [address for group in self._groups for address in group]

        def settled() -> bool:
            while waiting and greets(waiting[-1], self.port):
                waiting.pop()
            return not waiting or any(process.poll() is not None for process in self._processes)

        wait_until(settled, "all sshd greet", seconds=120)
        return not waiting and "Bind to port" not in self.log()

    def _start_one(self, number: int, group: Sequence[str]) -> None:
        config = self.folder / f"sshd_config_{number}"
        key = self._host_key(number)
        lines = [f"HostKey {key}", *(f"ListenAddress {address}:{self.port}" for address in group)]
        lines += [] if self._host_certificate is None else [f"HostCertificate {key}-cert.pub"]
        config.write_text(self._config + "".join(f"{line}\n" for line in lines))
        command = [SSHD, "-D", "-e", "-f", str(config)]
        if self._separate:
            command = ["unshare", "-m", "--propagation", "private", "sh", "-c", OWN_RUN, "sh", *command]
        with (self.folder / f"{number}.log").open("wb") as log:
            process = subprocess.Popen(
                control_group.entering(self._record.cgroups, command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        self._processes.append(process)
        self._record.processes.append(Process.of(process.pid))

    def _stop(self) -> None:
        for cgroup in self._record.cgroups:
            wait_until(partial(control_group.nothing_left, Path(cgroup)), "all sshd end")
        for process in self._processes:
            process.kill()
        self._reap()
        self._record.processes.clear()

    def _reap(self) -> None:
        for process in self._processes:
            process.wait()
        self._processes.clear()


def greets(address: str, port: int) -> bool:
    """Tell whether an SSH server greets there within a second."""
    try:
        with socket.create_connection((address, port), 1) as connection:
            connection.settimeout(1)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
