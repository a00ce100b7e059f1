"""Fetches the certificates with which Amazon SNS signs, and those that stand between them and Amazon's roots.

SNS serves its own certificate alone (https://github.com/robbiet480/go.sns/issues/8). The one above it is where the
certificate says (RFC 5280, 4.2.2.1), and only an address of Amazon's authority is followed; what lies there needs no
protection on its way, since it is believed for its own signature.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import certifi
import httpx
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AuthorityInformationAccessOID

from service.domain.bounded_bytes import whole
from service.domain.errors import Unauthenticated, Unavailable
from service.triggers.sns import is_certificate_url
from service.triggers.sns_signature import amazon_roots

#: In seconds: how long a certificate is kept, and how long it is believed that there is none.
KEPT = 86_400.0
KEPT_ABSENT = 60.0
#: So many addresses are asked in a minute: whoever knows a topic could name others without end.
MOST_A_MINUTE = 10
_MOST_BYTES = 65_536
_MOST_ABOVE = 3

_ABOVE = re.compile(r"http://crt\.[a-z0-9.-]{1,60}\.amazontrust\.com/[A-Za-z0-9._-]{1,60}", re.ASCII)
_WAY_OUT = "The service needs a way to sns.REGION.amazonaws.com and crt.*.amazontrust.com."


class SnsCertificates:
    """One for the whole service. Safe for many threads; one of them asks at a time."""

    def __init__(
        self,
        *,
        transport: httpx.BaseTransport | None = None,
        roots: Sequence[x509.Certificate] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is asked yet. A test gives another transport, other roots and its own clock, in seconds."""
        self._transport = transport
        self._given = roots
        self._clock = clock
        self._lock = threading.Lock()
        #: For each address until when what is known holds; None for an address at which there is no certificate.
        self._known: dict[str, tuple[float, bytes | None]] = {}
        self._asked_at: list[float] = []

    def roots(self) -> Sequence[x509.Certificate]:
        """Return the authorities that a certificate of SNS must come from."""
        return self._roots

    def fetch(self, url: str) -> bytes:
        """Return the certificate at an address of SNS and those above it, as PEM.

        Raises Unauthenticated where there is none, Unavailable when it cannot be had now.
        """
        if not is_certificate_url(url):
            raise Unauthenticated("The address of the certificate is none of SNS.")
        with self._lock:
            until, pem = self._known.get(url, (0.0, None))
            if self._clock() >= until:
                pem = self._ask(url)
        if pem is None:
            raise Unauthenticated("SNS has no certificate at the address that the message names.")
        return pem

    @cached_property
    def _roots(self) -> Sequence[x509.Certificate]:
        return self._given if self._given is not None else amazon_roots(Path(certifi.where()).read_bytes())

    def _ask(self, url: str) -> bytes | None:
        """Ask SNS, and remember the answer; Unavailable when there is none."""
        now = self._clock()
        self._asked_at = [at for at in self._asked_at if at > now - 60]
        if len(self._asked_at) >= MOST_A_MINUTE:
            raise Unavailable("Too many certificates of SNS are asked for.", "Send it again later.")
        self._asked_at.append(now)
        with httpx.Client(transport=self._transport, timeout=5.0, follow_redirects=False) as client:
            found = _get(client, url)
            pem = None if found is None else self._with_those_above(client, found)
        self._known = {known: entry for known, entry in self._known.items() if entry[0] > now}
        self._known[url] = (now + (KEPT if pem is not None else KEPT_ABSENT), pem)
        return pem

    def _with_those_above(self, client: httpx.Client, pem: bytes) -> bytes | None:
        try:
            chain = x509.load_pem_x509_certificates(pem)
            while len(chain) <= _MOST_ABOVE and (address := self._address_above(chain[-1])) is not None:
                found = _get(client, address)
                if found is None:
                    raise Unavailable("The authority of SNS' certificate is not where it says.", _WAY_OUT)
                is_text = found.lstrip().startswith(b"-----")
                chain.append((x509.load_pem_x509_certificate if is_text else x509.load_der_x509_certificate)(found))
        except ValueError:
            return None
        return b"".join(one.public_bytes(Encoding.PEM) for one in chain)

    def _address_above(self, certificate: x509.Certificate) -> str | None:
        """Return where the one above a certificate lies; None when it is a root, or nobody that we would ask says."""
        if certificate.issuer in {root.subject for root in self._roots}:
            return None
        try:
            access = certificate.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
        except x509.ExtensionNotFound:
            return None
        addresses = [
            one.access_location.value
            for one in access
            if one.access_method == AuthorityInformationAccessOID.CA_ISSUERS
            and isinstance(one.access_location, x509.UniformResourceIdentifier)
        ]
        return next((address for address in addresses if _ABOVE.fullmatch(address)), None)


def _get(client: httpx.Client, url: str) -> bytes | None:
    """Return what lies at an address; None when nothing does, Unavailable when nobody answers."""
    try:
        with client.stream("GET", url) as response:
            if 400 <= response.status_code < 500:
                return None
            if response.status_code != 200:
                raise Unavailable(f"SNS answers {response.status_code} instead of a certificate.", _WAY_OUT)
            return whole(response.iter_bytes(), most=_MOST_BYTES)
    except httpx.HTTPError as error:
        raise Unavailable(f"The certificate of SNS cannot be fetched: {type(error).__name__}.", _WAY_OUT) from error
