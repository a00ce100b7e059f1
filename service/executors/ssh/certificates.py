"""Judges certificates of OpenSSH (PROTOCOL.certkeys).

paramiko negotiates a certificate as host key and proves that the server holds its private key, but looks at
nothing else in it (5.1.0, pkey.py, load_certificate). Who signed it, for whom and for how long is judged here.
"""

import base64
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.hazmat.primitives.serialization.ssh import (
    SSHCertificate,
    SSHCertificateType,
    SSHCertPublicKeyTypes,
    load_ssh_public_identity,
)

from service.domain.public_key import PublicKey, parse_public_key, type_of

#: `valid before` of a certificate that never ends.
_FOREVER = 2**64 - 1
#: In the layout of a certificate: four bytes of length, and so many bytes.
_STRING = 0


class Disbelieved(Exception):
    """A certificate is not to be believed; the text says why, as the end of a sentence."""


def read_certificate(blob: bytes) -> SSHCertificate:
    """Return a certificate from its bytes on the wire; Disbelieved when they are no certificate."""
    kind = type_of(blob).encode()
    try:
        identity = load_ssh_public_identity(kind + b" " + base64.b64encode(blob))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Disbelieved("cannot be read") from error
    if not isinstance(identity, SSHCertificate):
        raise Disbelieved("is a plain key and no certificate")
    return identity


def judge_host_certificate(
    blob: bytes, names: Sequence[str], *, authorities: Collection[PublicKey], now: datetime
) -> None:
    """Return when a host certificate holds for one of the names at this moment; else Disbelieved.

    Stricter than ssh(1): a certificate that names no principal is refused, and a principal is compared as a
    whole, never as a pattern.
    """
    certificate = read_certificate(blob)
    if certificate.type is not SSHCertificateType.HOST:
        raise Disbelieved("is made for users and not for machines")
    _judge_signature(certificate, blob, authorities)
    _judge_dates(certificate, now)
    principals = [principal.decode("utf-8", "backslashreplace") for principal in certificate.valid_principals]
    if not set(names) & set(principals):
        listed = ", ".join(principals) or "no name at all"
        raise Disbelieved(f"is made for {listed} and not for {' or '.join(dict.fromkeys(names))}")
    if certificate.critical_options:
        unknown = ", ".join(sorted(name.decode("utf-8", "backslashreplace") for name in certificate.critical_options))
        raise Disbelieved(f"has the critical option {unknown}, which is unknown for a machine")


def judge_user_certificate(certificate: SSHCertificate, *, now: datetime) -> None:
    """Return when a user certificate can work at this moment; the server judges the rest."""
    if certificate.type is not SSHCertificateType.USER:
        raise Disbelieved("is made for machines and not for users")
    _judge_dates(certificate, now)


def wire_key(key: SSHCertPublicKeyTypes) -> PublicKey:
    """Return a key of `cryptography` as a public key of ours."""
    return parse_public_key(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())


def _judge_signature(certificate: SSHCertificate, blob: bytes, authorities: Collection[PublicKey]) -> None:
    try:
        signer = wire_key(certificate.signature_key())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Disbelieved("is signed by a key that cannot be read") from error
    if signer not in authorities:
        raise Disbelieved(f"is signed by {signer.kind} {signer.fingerprint}, which is none of the known authorities")
    if _signature_algorithm(blob) == "ssh-rsa":
        raise Disbelieved("is signed with SHA-1, which can be forged")
    try:
        certificate.verify_cert_signature()
    except (InvalidSignature, ValueError) as error:
        raise Disbelieved("has a signature that is not the authority's") from error


def _judge_dates(certificate: SSHCertificate, now: datetime) -> None:
    seconds = now.timestamp()
    if seconds < certificate.valid_after:
        raise Disbelieved(f"is valid only from {_moment(certificate.valid_after)} on")
    if certificate.valid_before != _FOREVER and seconds >= certificate.valid_before:
        raise Disbelieved(f"expired at {_moment(certificate.valid_before)}")


def _moment(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"second {seconds}"


def _signature_algorithm(blob: bytes) -> str:
    """Return the algorithm that a certificate is signed with; `cryptography` keeps it to itself.

    The layout is that of PROTOCOL.certkeys; `read_certificate` has proven that the blob follows it.
    """
    key_fields = 1 if type_of(blob).startswith("ssh-ed25519") else 2
    before = [_STRING] * (2 + key_fields) + [8, 4, _STRING, _STRING, 8, 8] + [_STRING] * 4
    at = 0
    for size in before:
        at += size or 4 + int.from_bytes(blob[at : at + 4], "big")
    return type_of(blob[at + 4 :])
