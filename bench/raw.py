"""The fastest that paramiko does: one kept connection, no Nagle, one channel for each script, nothing recorded."""

import shlex
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import paramiko

from lab.closing import Closing
from lab.sshd import SshdFarm


@dataclass(frozen=True)
class Said:
    """What came back from one script."""

    seconds: float
    stdout: bytes
    stderr: bytes


class RawSsh(Closing):
    """One connection to the first address of a farm."""

    def __init__(self, farm: SshdFarm, targets: Path) -> None:
        """Connect; scripts find `targets` where the envelope would give them a file."""
        server = farm.servers[0]
        self._targets = targets
        sock = socket.create_connection((server.address, server.port), 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = paramiko.Transport(sock)
        options = self._transport.get_security_options()
        options.kex = ("curve25519-sha256@libssh.org",)
        options.ciphers = ("aes128-gcm@openssh.com",)
        self._transport.start_client(timeout=30)
        self._transport.auth_publickey(farm.user, paramiko.Ed25519Key(filename=str(farm.private_key)))

    def run(self, text: str) -> Said:
        """Run a script through bash; RuntimeError unless it exits 0."""
        command = f"UNSTICK_TARGETS={shlex.quote(str(self._targets))} exec bash -c {shlex.quote(text)}"
        began = time.perf_counter()
        channel = self._transport.open_session(timeout=30)
        channel.exec_command(command)
        with channel.makefile("rb") as out, channel.makefile_stderr("rb") as err:
            stdout, stderr = out.read(), err.read()
        status = channel.recv_exit_status()
        channel.close()
        seconds = time.perf_counter() - began
        if status != 0:
            raise RuntimeError(f"the script ended with {status}: {stderr!r}")
        return Said(seconds, stdout, stderr)

    def close(self) -> None:
        """Cut the connection."""
        self._transport.close()
