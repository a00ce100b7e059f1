"""One verb of the envelope over one channel: send it, read until the report, never wait for a dead peer."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import paramiko

from service.domain.script import OutputChunk
from service.executors import envelope
from service.executors.frames import Conversation
from service.executors.ssh.link import BROKEN, Link, close_quietly

READ_SIZE = 1 << 16
#: How often a quiet channel is looked at: for the other stream, the silence and the deadline.
_TICK_SECONDS = 0.5

#: The only ending of which the words that came with it prove anything.
SHELL_ENDED = "its shell ended"


class NothingSent(Exception):
    """The connection broke before the first byte of the envelope; the text says how."""


@dataclass
class Exchange:
    """Bytes out, frames in."""

    link: Link
    conversation: Conversation
    on_output: Callable[[OutputChunk], None]
    #: On the clock of time.monotonic.
    until: float

    def hold(self, data: bytes) -> str:
        """Send the envelope and read until its report; return how it ended. NothingSent, and nothing else."""
        channel = self._open()
        try:
            self._send(channel, data)
            return self._read(channel)
        except BROKEN:
            return "the connection broke"
        finally:
            close_quietly(channel)

    def _open(self) -> paramiko.Channel:
        """Return a channel with our constant command line running; it reads its input and has none yet."""
        try:
            channel = self.link.channel()
        except BROKEN as error:
            raise NothingSent("no session could be opened") from error
        try:
            with self.link.cut_after(self.link.patience.channel):
                channel.exec_command(envelope.command_line(self.link.endpoint))
        except BROKEN as error:
            close_quietly(channel)
            raise NothingSent("no command could be started") from error
        return channel

    def _send(self, channel: paramiko.Channel, data: bytes) -> None:
        channel.settimeout(self.link.patience.answer)
        with self.link.cut_after(self.link.patience.answer):
            channel.sendall(data)
            channel.shutdown_write()

    def _read(self, channel: paramiko.Channel) -> str:
        channel.settimeout(_TICK_SECONDS)
        heard = time.monotonic()
        while self.conversation.report is None:
            try:
                data = channel.recv(READ_SIZE)
            except TimeoutError:
                data = None
            # Both streams share one window: what is not read of the one stops the other.
            while channel.recv_stderr_ready():
                self.conversation.hear(channel.recv_stderr(READ_SIZE))
                heard = time.monotonic()
            now = time.monotonic()
            if data:
                heard = now
                for chunk in self.conversation.feed(data):
                    self.on_output(chunk)
            elif data is not None:
                return self._how_it_ended(channel)
            elif now >= self.until:
                return "it did not answer in time"
            elif now - heard >= self.link.patience.silence:
                if not self.link.answers():
                    return "it gave no sign of life"
                heard = time.monotonic()
        return "it answered"

    def _how_it_ended(self, channel: paramiko.Channel) -> str:
        # A lost connection and a command without a status both show -1 (paramiko 5.1, channel.py).
        channel.status_event.wait(self.link.patience.channel)
        ended = self.link.alive() and channel.exit_status >= 0
        return SHELL_ENDED if ended else "the connection was lost"
