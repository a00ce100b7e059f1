"""One authenticated connection to one machine: dialled, recognised, logged in, and looked at once."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime

import paramiko

from service.domain.node import Endpoint
from service.domain.public_key import PublicKey
from service.domain.script import NotStarted
from service.executors.not_sent import NotSent
from service.executors.ssh.host_keys import HostKeys, Shown, judge_host_key
from service.executors.ssh.keys import KeyRing
from service.executors.ssh.watchdog import Watchdog

#: What a broken connection looks like when paramiko is in the middle of something.
BROKEN = (paramiko.SSHException, EOFError, OSError)

# Allow-lists, in the order that was measured best: a Diffie-Hellman group costs twenty times the CPU of
# curve25519, CBC and SHA-1 are given up (paramiko 5.1 still offers 3des-cbc, *-cbc, hmac-sha1 and hmac-md5).
_KEX = ("mlkem768x25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "ecdh-sha2-nistp384",
        "ecdh-sha2-nistp521")  # fmt: skip
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
_MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")


@dataclass(frozen=True)
class Patience:
    """How long each part of the way may take, in seconds."""

    connect: float = 10.0
    #: Banner and key exchange; a node that swaps needs long.
    handshake: float = 30.0
    login: float = 30.0
    #: Opening a channel on a connection that stands: longer means that the peer is dead.
    channel: float = 10.0
    #: The first look, the login shell's start-up files included.
    look: float = 20.0
    #: A connection that was silent for so long is asked whether the peer is still there ...
    silence: float = 15.0
    #: ... and is given up when no answer came for so long.
    answer: float = 15.0


class NoCommonAlgorithm(NotSent):
    """The server and we have no algorithm of some sort in common."""


class PinnedTransport(paramiko.Transport):
    """A transport that asks for host keys in our order, certificates first where we know an authority.

    paramiko 5.1 puts certificates after the plain keys, and a server shows the first kind it has.
    """

    host_key_algorithms: tuple[str, ...] = ()

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        """Return what is asked for; paramiko reads it in every key exchange."""
        return self.host_key_algorithms

    def close(self) -> None:
        """Close it for good; the goodbye to a carrier that is breaking fails, and changes nothing."""
        with suppress(*BROKEN):
            super().close()


class Link:
    """A connection that scripts may be sent over, several at once."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: paramiko.Transport,
        *,
        patience: Patience,
        watchdog: Watchdog,
        on_close: Callable[[], None],
    ) -> None:
        """Take a transport that is logged in; `on_close` gives up what carries it."""
        self.endpoint = endpoint
        self.patience = patience
        self.transport = transport
        #: The boot in which the connection was made; it cannot outlive it.
        self.boot_id: str | None = None
        self._watchdog = watchdog
        self._on_close = on_close
        self._asking = threading.Lock()
        self._closed = threading.Lock()

    def alive(self) -> bool:
        """Tell whether the connection stands, as far as our own kernel knows."""
        return self.transport.is_active()

    def answers(self) -> bool:
        """Ask the peer for a sign of life; a peer that gives none in time is cut off.

        A dead machine sends neither FIN nor RST, and the keepalive of paramiko waits for no answer, so this
        asks for one (RFC 4254, section 4: a request with `want reply` is always answered).
        """
        try:
            with self._asking, self.cut_after(self.patience.answer):
                self.transport.global_request("keepalive@openssh.com", wait=True)
        except BROKEN:
            # Only the writer has noticed so far that the connection is gone.
            return False
        return self.alive()

    def channel(self) -> paramiko.Channel:
        """Open a session channel; raises one of BROKEN."""
        return self.transport.open_session(timeout=self.patience.channel)

    def cut_after(self, seconds: float) -> AbstractContextManager[None]:
        """Cut the connection when the block takes longer: several waits of paramiko know no timeout."""
        return self._watchdog.within(seconds, self.transport.close)

    def close(self) -> None:
        """Cut the connection; doing it twice does nothing."""
        if self._closed.acquire(blocking=False):
            self.transport.close()
            self._on_close()


@dataclass
class Dialler:
    """Makes links. Safe for many threads."""

    keys: KeyRing
    host_keys: HostKeys
    patience: Patience
    now: Callable[[], datetime]
    watchdog: Watchdog = field(default_factory=Watchdog)

    def connect(self, endpoint: Endpoint, carrier: Link | None, *, on_close: Callable[[], None]) -> Link:
        """Return a link that is logged in, through the carrier when there is one; NotSent says what failed."""
        known = self.host_keys.known(endpoint)
        key = self.keys.key_of(endpoint)
        sock = self._through(carrier, endpoint) if carrier else self._dial(endpoint)
        transport = self._transport(sock, known.algorithms())
        with ExitStack() as given_up:
            given_up.callback(transport.close)
            self._shake_hands(transport, endpoint)
            judge_host_key(_shown(transport), endpoint, known=known, now=self.now())
            self._log_in(transport, endpoint, key=key)
            given_up.pop_all()
        return Link(endpoint, transport, patience=self.patience, watchdog=self.watchdog, on_close=on_close)

    def offered(self, endpoint: Endpoint, algorithms: tuple[str, ...], *, carrier: Link | None) -> Shown:
        """Return the host key that a server shows when asked in this way; nobody logs in.

        NoCommonAlgorithm when it has none of these.
        """
        sock = self._through(carrier, endpoint) if carrier else self._dial(endpoint)
        transport = self._transport(sock, algorithms)
        try:
            self._shake_hands(transport, endpoint)
            return _shown(transport)
        finally:
            transport.close()

    def _dial(self, endpoint: Endpoint) -> socket.socket:
        try:
            sock = socket.create_connection((endpoint.address, endpoint.port), timeout=self.patience.connect)
        except socket.gaierror as error:
            raise NotSent(
                NotStarted.UNREACHABLE,
                f"The address of {endpoint.name} does not resolve: {endpoint.address} ({error.strerror}).",
                "Correct `address` in inventory.yaml, or the name service.",
            ) from error
        except OSError as error:
            raise unreachable(endpoint, _words(error)) from error
        # paramiko 5.1 sets no option at all; Nagle and delayed ACK then cost 40 ms with every script.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return sock

    def _through(self, carrier: Link, endpoint: Endpoint) -> paramiko.Channel:
        target = (endpoint.address, endpoint.port)
        try:
            return carrier.transport.open_channel(
                "direct-tcpip", target, ("127.0.0.1", 0), timeout=self.patience.connect
            )
        except paramiko.ChannelException as error:
            raise unreachable(endpoint, f"{carrier.endpoint.name} cannot open a way to it ({error.text})") from error
        except BROKEN as error:
            carrier.close()
            raise unreachable(endpoint, f"the way through {carrier.endpoint.name} broke", again=True) from error

    def _transport(self, sock: socket.socket | paramiko.Channel, algorithms: tuple[str, ...]) -> PinnedTransport:
        transport = PinnedTransport(sock)
        transport.host_key_algorithms = algorithms
        transport.banner_timeout = self.patience.handshake
        transport.auth_timeout = self.patience.login
        options = transport.get_security_options()
        options.kex = _KEX if set(_KEX) <= set(options.kex) else _KEX[1:]
        options.ciphers = _CIPHERS
        options.digests = _MACS
        return transport

    def _shake_hands(self, transport: paramiko.Transport, endpoint: Endpoint) -> None:
        try:
            transport.start_client(timeout=self.patience.handshake)
            transport.get_remote_server_key()
        except paramiko.ssh_exception.IncompatiblePeer as error:
            raise NoCommonAlgorithm(
                NotStarted.UNREACHABLE,
                f"The sshd of {endpoint.name} ({endpoint.address}) knows none of our algorithms ({error}).",
                "Bring its OpenSSH up to date, or allow curve25519, AES-GCM or AES-CTR, and SHA-2 there.",
            ) from error
        except BROKEN as error:
            if transport.is_active():
                raise unreachable(endpoint, f"no SSH handshake within {self.patience.handshake:.0f} s") from error
            raise unreachable(endpoint, "it closes the connection during the SSH handshake", again=True) from error

    def _log_in(self, transport: paramiko.Transport, endpoint: Endpoint, *, key: paramiko.PKey) -> None:
        began = time.monotonic()
        try:
            more = transport.auth_publickey(endpoint.user, key)
        except paramiko.BadAuthenticationType as error:
            allowed = ", ".join(error.allowed_types)
            raise _not_let_in(endpoint, f"its sshd takes no keys, only {allowed}") from error
        except BROKEN as error:
            if time.monotonic() - began >= self.patience.login:
                raise _not_let_in(endpoint, f"no answer to the login within {self.patience.login:.0f} s") from error
            raise _not_let_in(endpoint, f"its sshd does not accept {_key_words(endpoint)}") from error
        if more:
            raise _not_let_in(endpoint, f"its sshd asks for more than a key ({', '.join(more)})")


def close_quietly(channel: paramiko.Channel) -> None:
    """Close a channel; on a connection that is breaking, the goodbye fails as well."""
    with suppress(*BROKEN):
        channel.close()


def unreachable(endpoint: Endpoint, what: str, *, again: bool = False) -> NotSent:
    """Return the refusal for a machine that was not reached."""
    return NotSent(
        NotStarted.UNREACHABLE,
        f"{endpoint.name} ({endpoint.address}:{endpoint.port}) was not reached: {what}.",
        f"Look with `unstick nodes check {endpoint.name}`.",
        again=again,
    )


def _shown(transport: paramiko.Transport) -> Shown:
    key = transport.get_remote_server_key()
    blob = key.public_blob
    return Shown(PublicKey(key.get_name(), key.asbytes()), blob.key_blob if blob is not None else None)


def _not_let_in(endpoint: Endpoint, what: str) -> NotSent:
    return NotSent(
        NotStarted.LOGIN,
        f"{endpoint.name} does not let {endpoint.user} in: {what}.",
        f"Try `ssh -i {endpoint.key_file} -o IdentitiesOnly=yes -p {endpoint.port} "
        f"{endpoint.user}@{endpoint.address} true`, and read the journal of its sshd.",
    )


def _key_words(endpoint: Endpoint) -> str:
    words = f"the key file {endpoint.key_file}"
    return f"{words} with the certificate file {endpoint.certificate_file}" if endpoint.certificate_file else words


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    return (error.strerror or str(error)).lower()
