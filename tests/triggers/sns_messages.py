"""Messages of SNS, and an authority of the tests' own that certifies who signs them."""

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256, HashAlgorithm
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
TOPIC = "arn:aws:sns:us-east-1:111122223333:gpu-alarms"
URL = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
CONFIRM = f"https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336412f37"

_SIGNED = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
    "UnsubscribeConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}


@dataclass
class Authority:
    """Somebody who certifies: a root, one below it, and how often its certificates were asked for."""

    root: x509.Certificate
    below: x509.Certificate
    below_key: ec.EllipticCurvePrivateKey
    pem: bytes = b""
    asked: list[str] = field(default_factory=list)

    def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        return self.pem


@cache
def signing_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def authority_keys(owner: str) -> tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePrivateKey]:
    return ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


def authority(organisation: str = "Amazon", *, owner: str = "the real one") -> Authority:
    """Return an authority whose `pem` certifies the signing key for sns.amazonaws.com; an owner has keys of his own."""
    root_key, below_key = authority_keys(owner)
    root_name, below_name = _name("Root", organisation), _name("Below", organisation)
    root = _certificate(root_name, root_key, issuer=root_name, issuer_key=root_key, extensions=_of_authority(root_key))
    below = _certificate(
        below_name, below_key, issuer=root_name, issuer_key=root_key, extensions=_of_authority(below_key)
    )
    made = Authority(root, below, below_key)
    made.pem = pem(leaf(made), below)
    return made


def leaf(
    by: Authority,
    names: tuple[str, ...] = ("sns.amazonaws.com",),
    *,
    key: Any = None,
    until: datetime | None = None,
    above: str = "",
) -> x509.Certificate:
    """Return a certificate for these names, which says where the one above it lies."""
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    extensions: list[tuple[x509.ExtensionType, bool]] = [(usage, False), (alternative, False)]
    if above:
        where = x509.UniformResourceIdentifier(above)
        access = x509.AccessDescription(AuthorityInformationAccessOID.CA_ISSUERS, where)
        extensions.append((x509.AuthorityInformationAccess([access]), False))
    return _certificate(
        _name(names[0], "Amazon"),
        key or signing_key(),
        issuer=by.below.subject,
        issuer_key=by.below_key,
        extensions=extensions,
        until=until,
    )


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def message(**fields: Any) -> dict[str, Any]:
    """Return a notification without its signature."""
    usual = {
        "Type": "Notification",
        "MessageId": "00000000-0000-4000-8000-000000000002",
        "TopicArn": TOPIC,
        "Subject": 'ALARM: "gpu-vram"',
        "Message": "{}",
        "Timestamp": "2026-03-01T09:29:59.000Z",
        "SignatureVersion": "2",
        "SigningCertURL": URL,
        "UnsubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe",
    }
    return {name: value for name, value in (usual | fields).items() if value is not None}


def confirmation(kind: str = "SubscriptionConfirmation", **fields: Any) -> dict[str, Any]:
    return message(**({"Type": kind, "Subject": None, "Token": "2336412f37", "SubscribeURL": CONFIRM} | fields))


def signed(fields: dict[str, Any], *, algorithm: HashAlgorithm | None = None, key: Any = None) -> bytes:
    """Return the body with the signature that SNS would give it."""
    names = [name for name in _SIGNED[fields["Type"]] if name in fields]
    text = "".join(f"{name}\n{fields[name]}\n" for name in names).encode()
    made = (key or signing_key()).sign(text, padding.PKCS1v15(), algorithm or SHA256())
    return json.dumps(fields | {"Signature": base64.b64encode(made).decode()}).encode()


def _name(common: str, organisation: str) -> x509.Name:
    words = {NameOID.COUNTRY_NAME: "US", NameOID.ORGANIZATION_NAME: organisation, NameOID.COMMON_NAME: common}
    return x509.Name([x509.NameAttribute(oid, word) for oid, word in words.items()])


def _of_authority(key: ec.EllipticCurvePrivateKey) -> list[tuple[x509.ExtensionType, bool]]:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return [(x509.BasicConstraints(ca=True, path_length=None), True), (usage, True)]


def _certificate(
    subject: x509.Name,
    key: Any,
    *,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    extensions: list[tuple[x509.ExtensionType, bool]],
    until: datetime | None = None,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=30))
        .not_valid_after(until or NOW + timedelta(days=300))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(issuer_key, SHA256())
