"""Whether it is really the machine we mean: what we know of its host key, and what it shows us.

Nothing is ever believed at first sight: the key is pinned in the inventory or in a known_hosts file, or a
known authority has signed it.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from service.domain.errors import InvalidInput
from service.domain.node import Endpoint
from service.domain.public_key import KEY_TYPES, PublicKey, parse_public_key
from service.domain.script import NotStarted
from service.executors.not_sent import NotSent
from service.executors.ssh.certificates import Disbelieved, judge_host_certificate
from service.executors.ssh.known_hosts import KnownHosts, read_known_hosts

_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
_CERTIFICATE = "-cert-v01@openssh.com"


def algorithms_of(kind: str) -> tuple[str, ...]:
    """Return the host key algorithms that a type of key signs with; RSA never with SHA-1."""
    return _ALGORITHMS.get(kind, (kind,))


@dataclass(frozen=True)
class Known:
    """What is known of the host keys of one endpoint."""

    pinned: tuple[PublicKey, ...] = ()
    authorities: tuple[PublicKey, ...] = ()
    revoked: tuple[PublicKey, ...] = ()

    def algorithms(self) -> tuple[str, ...]:
        """Return the host key algorithms to ask for, best first.

        Certificates where an authority is known, then the types that are pinned, then all others: only a key
        that was shown can be named in the refusal.
        """
        kinds = list(dict.fromkeys([*(key.kind for key in self.pinned), *KEY_TYPES]))
        plain = [algorithm for kind in kinds for algorithm in algorithms_of(kind)]
        signed = [algorithm + _CERTIFICATE for algorithm in plain] if self.authorities else []
        return (*signed, *plain)


@dataclass(frozen=True)
class Shown:
    """What a server showed, and proved to hold the private key of."""

    key: PublicKey
    #: The bytes of the certificate, when it showed one.
    certificate: bytes | None = None


@dataclass
class HostKeys:
    """What is known of every endpoint; files are read once until they change. Safe for many threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _files: dict[Path, tuple[tuple[int, int], KnownHosts]] = field(default_factory=dict)

    def known(self, endpoint: Endpoint) -> Known:
        """Return what is known of an endpoint; NotSent when nothing is, or when it cannot be read."""
        pinned = [_parse(text, endpoint, "host_key") for text in endpoint.host_keys]
        authorities = [_parse(text, endpoint, "host_ca") for text in endpoint.host_authorities]
        revoked: list[PublicKey] = []
        if endpoint.known_hosts_file:
            found = self._file(Path(endpoint.known_hosts_file).expanduser()).of(_names_with_port(endpoint))
            pinned += found.keys
            authorities += found.authorities
            revoked += found.revoked
        if not pinned and not authorities:
            where = f" (nothing in {endpoint.known_hosts_file})" if endpoint.known_hosts_file else ""
            raise NotSent(
                NotStarted.HOST_KEY,
                f"The host key of {endpoint.name} ({endpoint.address}) is not known{where}.",
                f"Add `host_key` to inventory.yaml; {_scan(endpoint)}",
            )
        return Known(tuple(pinned), tuple(authorities), tuple(revoked))

    def _file(self, path: Path) -> KnownHosts:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            with self._lock:
                kept = self._files.get(path)
                if kept is None or kept[0] != stamp:
                    kept = (stamp, read_known_hosts(path.read_text("utf-8", "replace")))
                    self._files[path] = kept
        except OSError as error:
            raise NotSent(
                NotStarted.HOST_KEY,
                f"The known_hosts file {path} cannot be read ({error.strerror}).",
                "Mend `known_hosts_file` in inventory.yaml.",
            ) from error
        return kept[1]


def judge_host_key(shown: Shown, endpoint: Endpoint, *, known: Known, now: datetime) -> None:
    """Return when the machine is the one we mean; else NotSent with the fingerprint and the way to mend it."""
    if shown.key in known.revoked:
        raise _refusal(endpoint, shown, "is marked @revoked", "Find out why before you do anything else.")
    if shown.certificate is not None:
        _judge_certificate(shown, endpoint, known, now)
    elif shown.key not in known.pinned:
        raise _not_pinned(shown, endpoint, known)


def _judge_certificate(shown: Shown, endpoint: Endpoint, known: Known, now: datetime) -> None:
    trusted = [authority for authority in known.authorities if authority not in known.revoked]
    try:
        judge_host_certificate(
            shown.certificate or b"", (endpoint.address, endpoint.name), authorities=trusted, now=now
        )
    except Disbelieved as error:
        raise NotSent(
            NotStarted.HOST_KEY,
            f"The host certificate of {endpoint.name} ({endpoint.address}) {error}.",
            f"Its key is {shown.key.kind} {shown.key.fingerprint}. Have it signed again by your host CA "
            f"(`ssh-keygen -s CA -h -n {endpoint.address} ...`), or correct `host_ca` in inventory.yaml.",
        ) from error


def _not_pinned(shown: Shown, endpoint: Endpoint, known: Known) -> NotSent:
    same = [key for key in known.pinned if key.kind == shown.key.kind]
    if same:
        what = f"has changed: known is {', '.join(key.fingerprint for key in same)}"
    elif known.pinned:
        what = f"is not known: only one of another type is ({', '.join(key.kind for key in known.pinned)})"
    else:
        what = "is not signed: it shows no certificate of a known authority"
    return _refusal(
        endpoint,
        shown,
        what,
        "If the machine was rebuilt, compare this fingerprint on its console "
        f"(`ssh-keygen -lf /etc/ssh/ssh_host_{_file_word(shown.key)}_key.pub`) and then replace "
        f"`host_key` in inventory.yaml; {_scan(endpoint)}",
    )


def _refusal(endpoint: Endpoint, shown: Shown, what: str, way_out: str) -> NotSent:
    return NotSent(
        NotStarted.HOST_KEY,
        f"The host key of {endpoint.name} ({endpoint.address}) {what}; "
        f"it shows {shown.key.kind} {shown.key.fingerprint}.",
        way_out,
    )


def _file_word(key: PublicKey) -> str:
    return {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}.get(key.kind, "ecdsa")


def _scan(endpoint: Endpoint) -> str:
    return f"`unstick nodes add {endpoint.name} --scan` shows what it offers."


def _parse(text: str, endpoint: Endpoint, word: str) -> PublicKey:
    try:
        return parse_public_key(text)
    except InvalidInput as error:
        raise NotSent(NotStarted.HOST_KEY, f"`{word}` of {endpoint.name} is no key: {error}") from error


def _names_with_port(endpoint: Endpoint) -> Sequence[str]:
    names = dict.fromkeys((endpoint.address, endpoint.name))
    return [name if endpoint.port == 22 else f"[{name}]:{endpoint.port}" for name in names]
