"""An SSH server that says of each command what a test wants, and of its end nothing unless the test says so.

No sshd ends a command without a status by itself; one that is killed, a proxy or an appliance does.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import paramiko

from service.domain.node import Become, Endpoint, ExecutorKind, Login, View
from tests.executors.ssh.sshd import make_key

#: What the first look of a connection hears.
ROOT = b"unstick-first-look uid=0 linger=no sudo=no boot=11111111-1111-4111-8111-111111111111 user=root\n"
SYSTEM = b"unstick-first-look uid=900 linger=no sudo=yes boot=11111111-1111-4111-8111-111111111111 user=unstick\n"
#: Is called with the channel and all that stood on its standard input.
End = Callable[[paramiko.Channel, bytes], None]


class QuietServer:
    """Lets everybody in, answers the first look, and ends every envelope as it was told."""

    def __init__(self, folder: Path, end: End) -> None:
        """Listen."""
        self.envelopes: list[bytes] = []
        self._end = end
        self._key_file = make_key(folder / "key")
        self._public = " ".join((folder / "key.pub").read_text().split()[:2])
        self._key = paramiko.Ed25519Key.from_private_key_file(str(self._key_file))
        self._listener = socket.create_server(("127.0.79.3", 0))
        self._transports: list[paramiko.Transport] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def endpoint(self, *, sudo: bool = False) -> Endpoint:
        """Return how it is reached."""
        address, port = self._listener.getsockname()
        return Endpoint(
            "gpu-01",
            ExecutorKind.SSH,
            address,
            port=port,
            user="unstick" if sudo else "root",
            key_file=str(self._key_file),
            host_keys=(self._public,),
            become=Become.SUDO if sudo else Become.NONE,
            login=Login.SYSTEM if sudo else Login.ROOT,
            view=View.BOOT,
        )

    def __enter__(self) -> Self:
        """Return the server itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._listener.close()
        for transport in self._transports:
            transport.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                transport = paramiko.Transport(near)
                self._transports.append(transport)
                transport.add_server_key(self._key)
                with suppress(paramiko.SSHException, EOFError):
                    transport.start_server(server=_Door(self._serve))

    def _serve(self, channel: paramiko.Channel, command: bytes) -> None:
        if b"unstick-first-look" in command:
            channel.sendall(SYSTEM if b"sudo -n" in command else ROOT)
            channel.send_exit_status(0)
            channel.shutdown_write()
            # The other side closes first: it may not even have heard yet that the command was accepted.
            channel.recv(1)
            channel.close()
            return
        envelope = b""
        while data := channel.recv(65536):
            envelope += data
        self.envelopes.append(envelope)
        self._end(channel, envelope)


class _Door(paramiko.ServerInterface):
    """Lets everybody in, and gives each command a thread."""

    def __init__(self, serve: Callable[[paramiko.Channel, bytes], None]) -> None:
        self._serve = serve

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._serve, args=(channel, command), daemon=True).start()
        return True
