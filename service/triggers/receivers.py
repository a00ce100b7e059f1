"""Proves and reads deliveries of every kind of source; fulfils the port Receivers."""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import structlog
from cryptography import x509

from service.app.secret_line import read_text
from service.domain.alert import AlertSourceKind, Parsed
from service.domain.errors import ConfigInvalid, Unauthenticated, Unavailable
from service.domain.known_secrets import KNOWN
from service.domain.rule import AlertSource
from service.triggers import alertmanager, cloudwatch, generic, grafana, pagerduty, signatures
from service.triggers.sns_signature import CertificateFetcher, verify_sns

log = structlog.get_logger()


class SourceReceivers:
    """One for the whole service. Safe for many threads.

    Secrets are read at each delivery, so that a new one counts at once.
    """

    def __init__(self, *, fetch: CertificateFetcher, roots: Callable[[], Sequence[x509.Certificate]]) -> None:
        """Take how certificates of SNS are fetched, and the authorities that they must come from."""
        self._fetch = fetch
        self._roots = roots
        self._lock = threading.Lock()
        self._told: set[str] = set()

    def token(self, headers: Mapping[str, str]) -> str:
        """Return the token that came with a request; Unauthenticated."""
        return signatures.presented_token(headers)

    def verify(self, source: AlertSource, body: bytes, *, headers: Mapping[str, str], now: datetime) -> None:
        """Return when a signature is right; Unauthenticated, or Unavailable without a secret or certificate."""
        match source.kind:
            case AlertSourceKind.ALERTMANAGER:
                raise Unauthenticated("An Alertmanager signs nothing: it shows a token.")
            case AlertSourceKind.GRAFANA:
                signatures.verify_grafana(body, headers, secrets=self._secrets(source), now=now)
            case AlertSourceKind.PAGERDUTY:
                signatures.verify_pagerduty(body, headers, secrets=self._secrets(source), now=now)
            case AlertSourceKind.GENERIC:
                signatures.verify_standard(body, headers, secrets=self._secrets(source), now=now)
            case AlertSourceKind.CLOUDWATCH:
                roots = self._roots()
                verify_sns(body, headers, topics=source.topics, fetch=self._fetch, roots=roots, now=now)

    def parse(self, source: AlertSource, body: bytes, *, headers: Mapping[str, str], now: datetime) -> Parsed:
        """Return what a delivery says; InvalidInput for a body that is none of its kind."""
        match source.kind:
            case AlertSourceKind.ALERTMANAGER:
                return alertmanager.parse(body, headers, now=now)
            case AlertSourceKind.GRAFANA:
                return grafana.parse(body, headers, now=now)
            case AlertSourceKind.PAGERDUTY:
                return pagerduty.parse(body, headers, now=now)
            case AlertSourceKind.CLOUDWATCH:
                return cloudwatch.parse(body, headers, now=now)
            case AlertSourceKind.GENERIC:
                return generic.parse(body, headers, now=now, mapping=source.mapping)

    def _secrets(self, source: AlertSource) -> list[str]:
        """Return the secrets of a source; Unavailable when none of them can be used."""
        good = []
        for file in source.secret_files:
            try:
                good.append(read_secret(Path(file), source.kind))
            except ConfigInvalid as error:
                self._tell(source, error)
        if not good:
            raise Unavailable("What would prove the delivery is not there now.", "The log of the service says why.")
        return good

    def _tell(self, source: AlertSource, error: ConfigInvalid) -> None:
        """Log each fault once: whoever knows the address can ask as often as he likes."""
        with self._lock:
            known = str(error) in self._told
            self._told.add(str(error))
        if not known:
            log.error("source.secret_unusable", source=source.name, reason=error.reason, way_out=error.way_out)


def read_secret(file: Path, kind: AlertSourceKind) -> str:
    """Return the secret in a file, without the white space around it; ConfigInvalid when it cannot be used."""
    secret = read_text(file, holds="the secret")
    try:
        signatures.check_secret(kind, secret)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{file}: {error.reason}", error.way_out) from error
    KNOWN.learn(secret)
    return secret
