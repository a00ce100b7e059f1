"""The known_hosts file of OpenSSH (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT), hashed names and markers included."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate

from service.domain.errors import InvalidInput
from service.domain.public_key import PublicKey, parse_public_key

_CERT_AUTHORITY = "@cert-authority"
_REVOKED = "@revoked"


@dataclass(frozen=True)
class HostsLine:
    """One line: for whom, what kind of statement, and the key."""

    marker: str
    hosts: str
    key: PublicKey

    def speaks_of(self, name: str) -> bool:
        """Tell whether the line is about a name, given as `host` or, off port 22, as `[host]:port`."""
        if self.hosts.startswith("|1|"):
            return _hash_matches(self.hosts, name)
        patterns = self.hosts.lower().split(",")
        refused = any(_matches(pattern[1:], name) for pattern in patterns if pattern.startswith("!"))
        return not refused and any(_matches(pattern, name) for pattern in patterns if not pattern.startswith("!"))


@dataclass(frozen=True)
class Found:
    """What a file says of one machine."""

    keys: tuple[PublicKey, ...]
    authorities: tuple[PublicKey, ...]
    revoked: tuple[PublicKey, ...]


@dataclass(frozen=True)
class KnownHosts:
    """A whole file."""

    lines: tuple[HostsLine, ...]

    def of(self, names: Sequence[str]) -> Found:
        """Return what the file says of a machine with these names."""
        wanted = [name.lower() for name in names]
        mine = [line for line in self.lines if any(line.speaks_of(name) for name in wanted)]

        def marked(marker: str) -> tuple[PublicKey, ...]:
            return tuple(line.key for line in mine if line.marker == marker)

        return Found(keys=marked(""), authorities=marked(_CERT_AUTHORITY), revoked=marked(_REVOKED))


def read_known_hosts(text: str) -> KnownHosts:
    """Read a file; a line that cannot be understood says nothing, as with ssh(1)."""
    lines = (_read_line(line) for line in text.splitlines())
    return KnownHosts(tuple(line for line in lines if line is not None))


def _read_line(text: str) -> HostsLine | None:
    words = text.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if marker not in ("", _CERT_AUTHORITY, _REVOKED) or len(words) < 3:
        return None
    try:
        return HostsLine(marker, words[0], parse_public_key(" ".join(words[1:3])))
    except InvalidInput:
        return None


def _matches(pattern: str, name: str) -> bool:
    # In known_hosts only * and ? are special: `[` begins `[host]:port`.
    return re.match(translate(pattern.replace("[", "[[]")), name) is not None


def _hash_matches(hosts: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in hosts.split("|")[2:4])
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
