"""A TCP proxy that can be cut, frozen and closed: the network between us and a machine."""

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards connections to one address until told otherwise."""

    def __init__(self, target: tuple[str, int], address: str = "127.0.79.2") -> None:
        """Listen, and forward."""
        self._target = target
        self._listener = socket.create_server((address, 0))
        self.address: str = address
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        self._refusing = False
        self._budget: int | None = None
        self._deaf = threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Reset every connection."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for sock in pair:
                # Linger 0 makes the close a reset.
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                _shut(sock)

    def cut_after(self, count: int) -> None:
        """Cut once so many more bytes went to the machine; the last of them still arrive."""
        with self._lock:
            self._budget = count

    def freeze(self) -> None:
        """Forward nothing more of what stands, and close nothing: a machine that lost its power."""
        self._deaf.set()

    def thaw(self) -> None:
        """Let new connections through again; what was frozen stays lost."""
        self._deaf = threading.Event()

    def refuse(self, refusing: bool = True) -> None:
        """Close new connections at once."""
        self._refusing = refusing

    def close(self) -> None:
        """Stop."""
        _shut(self._listener)
        self.cut()

    def __enter__(self) -> Self:
        """Return the proxy itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self._refusing:
                near.close()
            else:
                self.adopt(near)

    def adopt(self, near: socket.socket) -> None:
        """Forward a connection that was accepted elsewhere."""
        try:
            far = socket.create_connection(self._target, timeout=5)
        except OSError:
            near.close()
            return
        with self._lock:
            self._pairs.append((near, far))
        deaf = self._deaf
        for source, sink, outward in ((near, far, True), (far, near, False)):
            source.settimeout(None)
            threading.Thread(target=self._pump, args=(source, sink, outward, deaf), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, outward: bool, deaf: threading.Event) -> None:
        try:
            while data := source.recv(4096):
                if deaf.is_set():
                    continue
                sink.sendall(data[: self._allowed(len(data))] if outward else data)
                if outward and self._spent():
                    self.cut()
        except OSError:
            pass
        if not deaf.is_set():
            _shut(source)
            _shut(sink)

    def _allowed(self, count: int) -> int:
        with self._lock:
            if self._budget is None:
                return count
            allowed = min(count, self._budget)
            self._budget -= allowed
            return allowed

    def _spent(self) -> bool:
        with self._lock:
            spent = self._budget == 0
            if spent:
                self._budget = None
            return spent


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
