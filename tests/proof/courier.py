"""Brings the bytes of an order to the shell of a node, as late and as often as a test wants."""

import subprocess
import tempfile
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lab.closing import Closing
from lab.nodes import Node
from lab.process import wait_until
from service.domain.node import Endpoint
from service.domain.script import AttemptRef, Report, ScriptKind, ScriptOrder
from service.executors import envelope
from service.executors.frames import SHELL_ENDED, Conversation

#: It only stops a hang.
PATIENCE_SECONDS = 600


class Courier(Closing):
    """One OpenSSH connection to a node, over which each delivery gets a shell of its own."""

    def __init__(self, node: Node, endpoint: Endpoint) -> None:
        """Connect."""
        self._endpoint = endpoint
        # Apart from the test's own folder: the path of a socket must be short.
        self._folder = tempfile.TemporaryDirectory(prefix="courier-")
        folder = Path(self._folder.name)
        known = folder / "known_hosts"
        known.write_text(f"{node.address} {node.host_key}\n")
        self._socket = folder / "ssh"
        options = ["BatchMode=yes", "LogLevel=ERROR", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes"]
        options += [f"UserKnownHostsFile={known}", f"ControlPath={self._socket}", "ControlPersist=no"]
        flags = [part for option in options for part in ("-o", option)]
        self._ssh = ["ssh", "-F", "/dev/null", *flags, "-i", str(node.private_key)]
        self._to = f"{endpoint.user}@{node.address}"
        # The kernel ends it when the test process dies without cleaning up.
        master = ["setpriv", "--pdeathsig", "KILL", *self._ssh, "-M", "-N", self._to]
        self._master = subprocess.Popen(master, stdin=subprocess.DEVNULL)
        wait_until(lambda: self._socket.exists() or self._master.poll() is not None, "the connection stands")

    def send(self, data: bytes) -> "subprocess.Popen[bytes]":
        """Give bytes to a new shell of the node, and do not wait for what it says."""
        command = [*self._ssh, self._to, envelope.command_line(self._endpoint)]
        sent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert sent.stdin is not None
        sent.stdin.write(data)
        sent.stdin.close()
        sent.stdin = None
        return sent

    def answer(self, sent: "subprocess.Popen[bytes]", attempt_id: str) -> Report:
        """Return what the node reports of an attempt over a delivery."""
        said, noise = sent.communicate(timeout=PATIENCE_SECONDS)
        conversation = Conversation(attempt_id, self._endpoint)
        conversation.feed(said)
        conversation.hear(noise)
        return conversation.conclude(SHELL_ENDED if sent.returncode == 0 else f"ssh ended with {sent.returncode}")

    def deliver(self, data: bytes, attempt_id: str) -> Report:
        """Send and wait for the answer."""
        return self.answer(self.send(data), attempt_id)

    def close(self) -> None:
        """Cut the connection."""
        # Not SIGTERM: ssh minds it only when it has something to read, and of a node that booted nothing comes.
        self._master.kill()
        self._master.wait()
        self._folder.cleanup()


def acting_order(endpoint: Endpoint, text: str, *, boot_id: str, lives: timedelta = timedelta(hours=1)) -> ScriptOrder:
    """Return an order that acts on the boot named, and may be started for as long as it lives."""
    now = datetime.now(UTC)
    return ScriptOrder(
        attempt_id=uuid.uuid4().hex,
        run_id="run-1",
        step="act",
        kind=ScriptKind.RUN,
        endpoint=endpoint,
        text=f"set -euo pipefail\n{text}\n",
        targets=(),
        acting=True,
        timeout=timedelta(seconds=60),
        not_after=now + lives,
        sent_at=now,
        service_id="proof",
        boot_id=boot_id,
    )


def ref(order: ScriptOrder) -> AttemptRef:
    """Return the attempt of an order."""
    return AttemptRef(order.attempt_id, order.endpoint, order.boot_id, wait=timedelta(seconds=20))
