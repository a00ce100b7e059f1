"""A certificate authority for SSH, as ssh-keygen makes it: host and user certificates, good ones and bad ones."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """What a certificate says; the words are those of ssh-keygen(1)."""

    principals: Sequence[str]
    host: bool = True
    validity: str = "-1d:+1d"  # `always:forever`, `-2d:-1d` is over, `+1d:+2d` is to come
    critical: str | None = None  # a critical option, `name=value`; one that nobody knows must be refused
    serial: int = 1


class CertificateAuthority:
    """A key that signs keys."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        """Make the key in an existing folder."""
        self._key = make_key(folder / name)

    @property
    def public_key(self) -> str:
        """Give the public key, as `ssh-ed25519 AAAA...`."""
        return public_key(self._key)

    def sign(self, private_key: Path, certificate: Certificate) -> Path:
        """Sign the key's public half; return the certificate's file, KEY-cert.pub."""
        command = ["ssh-keygen", "-q", "-s", str(self._key), "-I", "lab", "-z", str(certificate.serial)]
        command += ["-n", ",".join(certificate.principals), "-V", certificate.validity]
        command += ["-h"] if certificate.host else []
        command += [] if certificate.critical is None else ["-O", f"critical:{certificate.critical}"]
        subprocess.run([*command, f"{private_key}.pub"], check=True, capture_output=True)
        return private_key.with_name(f"{private_key.name}-cert.pub")


def make_key(path: Path, *, kind: str = "ed25519") -> Path:
    """Make a key pair, PATH and PATH.pub, replacing what was there; return the private key's path."""
    for old in (path, Path(f"{path}.pub"), Path(f"{path}-cert.pub")):
        old.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", path.name, "-f", str(path)], check=True)
    return path


def public_key(private_key: Path) -> str:
    """Give the public half as kind and base64, without the comment."""
    return " ".join(Path(f"{private_key}.pub").read_text().split()[:2])
