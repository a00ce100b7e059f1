"""Whether Amazon SNS has sent a message: topic, time, certificate, signature, in this order.

What costs least is looked at first, so that a stranger's message makes nobody fetch anything.
"""

import base64
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from service.domain.errors import InvalidInput, Unauthenticated
from service.triggers.body import moment_of
from service.triggers.sns import SnsEnvelope, canonical, is_certificate_url, read_envelope

#: SNS tries for an hour at most.
MAX_AGE = timedelta(hours=1)
MAX_AHEAD = timedelta(minutes=5)
MIN_RSA_BITS = 2048

#: Given the address of a certificate, returns it as PEM with whatever intermediate ones belong to it. May raise
#: Unavailable. It follows no redirect and is asked only for addresses that `is_certificate_url` accepts.
CertificateFetcher = Callable[[str], bytes]


def verify_sns(
    body: bytes,
    headers: Mapping[str, str],
    *,
    topics: Sequence[str],
    fetch: CertificateFetcher,
    roots: Sequence[x509.Certificate],
    now: datetime,
) -> None:
    """Return when SNS has signed the message for one of the topics; Unauthenticated otherwise, or what `fetch` raises.

    Only signature version 2 (RSA with SHA-256) is accepted: a topic has to be set to it. `roots` are the authorities
    that a certificate has to come from.
    """
    envelope = _envelope(body, headers)
    if envelope.topic not in topics:
        raise Unauthenticated("The topic is not one that the source listens to.", "Add it to `topics`.")
    if envelope.signature_version != "2":
        raise Unauthenticated(
            "SNS signs with SHA-1 here.",
            "Run: aws sns set-topic-attributes --attribute-name SignatureVersion --attribute-value 2 --topic-arn ARN.",
        )
    _refuse_other_times(envelope, now=now)
    if not is_certificate_url(envelope.certificate_url):
        raise Unauthenticated("The address of the certificate is none of SNS.")
    key = _key(fetch(envelope.certificate_url), envelope.certificate_url, roots=roots, now=now)
    try:
        signature = base64.b64decode(envelope.signature, validate=True)
        key.verify(signature, canonical(envelope), padding.PKCS1v15(), SHA256())
    except (InvalidSignature, ValueError) as error:
        raise Unauthenticated("The signature of SNS is not right.") from error


def amazon_roots(bundle: bytes) -> tuple[x509.Certificate, ...]:
    """Return those of a bundle of authorities (PEM) that are Amazon's own; none when there are none."""
    with warnings.catch_warnings():
        # A bundle holds old authorities that the library would rather not see.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        found = x509.load_pem_x509_certificates(bundle)
        return tuple(root for root in found if _organisation(root) == "Amazon")


def _envelope(body: bytes, headers: Mapping[str, str]) -> SnsEnvelope:
    try:
        return read_envelope(body, headers)
    except InvalidInput as error:
        raise Unauthenticated(error.reason, error.way_out) from error


def _refuse_other_times(envelope: SnsEnvelope, *, now: datetime) -> None:
    try:
        sent_at = moment_of(envelope.timestamp, "Timestamp")
    except InvalidInput as error:
        raise Unauthenticated(error.reason) from error
    if sent_at is None or not -MAX_AHEAD <= now - sent_at <= MAX_AGE:
        raise Unauthenticated("The message of SNS was sent too long ago, or is yet to be sent.", "Compare the clocks.")


def _key(pem: bytes, url: str, *, roots: Sequence[x509.Certificate], now: datetime) -> rsa.RSAPublicKey:
    try:
        leaf, *others = x509.load_pem_x509_certificates(pem)
        key = leaf.public_key()
    except ValueError as error:
        raise Unauthenticated("What was fetched is no certificate.") from error
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size < MIN_RSA_BITS:
        raise Unauthenticated("The certificate of SNS has no RSA key of 2048 bits or more.")
    if not any(_is_of(leaf, others, name=name, roots=roots, now=now) for name in _names(url)):
        raise Unauthenticated("The certificate is not of SNS, or no authority of Amazon stands behind it now.")
    return key


def _names(url: str) -> tuple[str, ...]:
    """Return the names that a certificate of SNS may have.

    They go without the region (https://github.com/awsdocs/amazon-sns-developer-guide/issues/7), or are the host's.
    """
    host = urlsplit(url).hostname or ""
    return ("sns.amazonaws.com.cn" if host.endswith(".cn") else "sns.amazonaws.com", host)


def _is_of(
    leaf: x509.Certificate,
    others: Sequence[x509.Certificate],
    *,
    name: str,
    roots: Sequence[x509.Certificate],
    now: datetime,
) -> bool:
    if not roots:
        return False
    at = now.astimezone(UTC).replace(tzinfo=None)
    verifier = PolicyBuilder().store(Store(list(roots))).time(at).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(leaf, list(others))
    except VerificationError:
        return False
    return True


def _organisation(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(names[0].value) if names else ""
