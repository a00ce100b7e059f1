"""An SSH public key as people write it, and the fingerprint by which they compare it."""

import base64
import binascii
import hashlib
from dataclasses import dataclass

from service.domain.errors import InvalidInput

#: Key types that may stand in an inventory; DSA and security-key types are not host keys that we can check.
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")

_LENGTH_BYTES = 4


@dataclass(frozen=True)
class PublicKey:
    """One public key: its type and its bytes on the wire (RFC 4253, section 6.6)."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """Return `SHA256:...`, as `ssh-keygen -l` prints it."""
        digest = hashlib.sha256(self.blob).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    @property
    def line(self) -> str:
        """Return `ssh-ed25519 AAAA...`, as a known_hosts file has it after the host."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"


def parse_public_key(text: str) -> PublicKey:
    """Read `ssh-ed25519 AAAA... [comment]`; InvalidInput names what is wrong with it."""
    words = text.split()
    if len(words) < 2:
        raise InvalidInput("A public key is a type and base64, such as `ssh-ed25519 AAAA...`.")
    kind, encoded = words[:2]
    if kind not in KEY_TYPES:
        raise InvalidInput(f"`{kind[:60]}` is not a known type of public key.", f"Known are {', '.join(KEY_TYPES)}.")
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise InvalidInput(f"The {kind} key is not valid base64.", "Copy the whole line again.") from error
    if type_of(blob) != kind:
        raise InvalidInput(f"The bytes of the {kind} key do not hold such a key.", "Copy the whole line again.")
    return PublicKey(kind, blob)


def type_of(blob: bytes) -> str:
    """Return the type that the bytes of a key name at their beginning, or an empty text."""
    length = int.from_bytes(blob[:_LENGTH_BYTES], "big")
    name = blob[_LENGTH_BYTES : _LENGTH_BYTES + length]
    whole = len(name) == length and len(blob) > _LENGTH_BYTES + length
    return name.decode("ascii", "replace") if whole else ""
