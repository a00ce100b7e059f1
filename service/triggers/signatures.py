"""Who has sent a delivery: verified on its raw bytes, before anything in it is read.

Each function returns when the sender is known and raises Unauthenticated when not. The reason is for the log; the
sender gets one and the same answer for all of them. An empty list of secrets refuses everything.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from service.domain.alert import AlertSourceKind
from service.domain.errors import ConfigInvalid, Unauthenticated
from service.domain.standard_webhooks import HOW_TO_MAKE_ONE, UNUSABLE, key_of, signature

#: How far the time of a signature may be from ours, to either side.
WINDOW = timedelta(seconds=300)
#: A sender that changes its secret signs with two; more are not looked at.
MAX_SIGNATURES = 8
#: In characters, as the file has it.
MIN_SECRET = 16

# The first is what the documentation names, the second what http/hmac.go in https://github.com/grafana/alerting has.
_GRAFANA_SIGNATURES = ("x-grafana-alerting-signature", "x-grafana-alert-signature")
# Grafana has no default for this one; these are the names in its own examples.
_GRAFANA_TIMESTAMPS = ("x-grafana-alerting-timestamp", "x-grafana-alerting-signature-timestamp")

Headers = Mapping[str, str]


def verify_grafana(body: bytes, headers: Headers, *, secrets: Sequence[str], now: datetime) -> None:
    """Know Grafana by HMAC-SHA256 over `<seconds>:<body>`, in lower-case hex.

    Without a timestamp header Grafana signs the body alone, which could be sent again for ever: it is refused.
    """
    timestamp = _first(headers, _GRAFANA_TIMESTAMPS)
    _refuse_other_times(timestamp, now=now)
    signed = _bytes(timestamp) + b":" + body
    given = [_bytes(grafana_signature(headers) or "")]
    _refuse_unsigned(given, [_hex(secret, signed) for secret in secrets if secret])


def grafana_signature(headers: Headers) -> str | None:
    """Return the signature that a delivery of Grafana carries; None without one."""
    return _first(headers, _GRAFANA_SIGNATURES) or None


def verify_pagerduty(body: bytes, headers: Headers, *, secrets: Sequence[str], now: datetime) -> None:
    """Know PagerDuty by HMAC-SHA256 over the body, in hex: one of `v1=...,v1=...` has to be ours.

    https://github.com/PagerDuty/developer-docs/blob/main/docs/webhooks/04-Signatures.md. The signature covers no
    time; what is sent again is known by the id of its event, and what is too old is ignored when it is read.
    """
    words = headers.get("x-pagerduty-signature", "").split(",", MAX_SIGNATURES)[:MAX_SIGNATURES]
    given = [_bytes(word.strip().removeprefix("v1=")) for word in words if word.strip().startswith("v1=")]
    _refuse_unsigned(given, [_hex(secret, body) for secret in secrets if secret])


def verify_standard(body: bytes, headers: Headers, *, secrets: Sequence[str], now: datetime) -> None:
    """Know a sender by Standard Webhooks: HMAC-SHA256 over `<id>.<seconds>.<body>` in base64, one of `v1,... v1,...`.

    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    """
    message, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message:
        raise Unauthenticated("The header webhook-id is missing.")
    _refuse_other_times(timestamp, now=now)
    words = headers.get("webhook-signature", "").split(" ", MAX_SIGNATURES)[:MAX_SIGNATURES]
    given = [_bytes(word.removeprefix("v1,")) for word in words if word.startswith("v1,")]
    keys = [key for secret in secrets if (key := key_of(secret)) is not None]
    signed = [signature(key, message=_bytes(message), timestamp=_bytes(timestamp), body=body) for key in keys]
    _refuse_unsigned(given, signed)


def presented_token(headers: Headers) -> str:
    """Return the token of `Authorization: Bearer TOKEN`, or the password of `Basic`; Unauthenticated without one.

    Alertmanager signs nothing (https://github.com/prometheus/alertmanager/issues/4248), so that a token is all it has.
    """
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    match scheme.lower():
        case "bearer":
            token = rest.strip()
        case "basic":
            token = _password(rest.strip())
        case _:
            token = ""
    if not token:
        raise Unauthenticated("There is no token in the header Authorization.")
    return token


def check_secret(kind: AlertSourceKind, secret: str) -> None:
    """Refuse a secret that could be guessed, or that its kind cannot use; ConfigInvalid. For whoever reads the file."""
    if kind is AlertSourceKind.GENERIC and key_of(secret) is None:
        raise ConfigInvalid(UNUSABLE, HOW_TO_MAKE_ONE)
    if len(secret) < MIN_SECRET:
        raise ConfigInvalid(f"The secret has fewer than {MIN_SECRET} characters.", "Make one: openssl rand -hex 32.")


def _refuse_other_times(timestamp: str, *, now: datetime) -> None:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise Unauthenticated("The signature carries no time in seconds.")
    if abs(now.timestamp() - int(timestamp)) > WINDOW.total_seconds():
        raise Unauthenticated("The time of the signature is too far from now.", "Compare the clocks.")


def _refuse_unsigned(given: Sequence[bytes], right: Sequence[bytes]) -> None:
    if not right:
        raise Unauthenticated("The source has no secret.", "Name a file in `secret_files`.")
    # All pairs are compared, so that the time taken does not tell which one was right.
    if sum(hmac.compare_digest(one, other) for one in given for other in right) == 0:
        raise Unauthenticated("No signature of the delivery is right.", "Compare the secrets.")


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode("utf-8").partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _hex(secret: str, signed: bytes) -> bytes:
    return hmac.digest(_bytes(secret), signed, hashlib.sha256).hex().encode()


def _first(headers: Headers, names: Sequence[str]) -> str:
    return next((headers[name] for name in names if headers.get(name)), "")


def _bytes(text: str) -> bytes:
    """Return the bytes of a header or a secret, different ones for different texts, whatever is in them."""
    return text.encode("utf-8", "surrogatepass")
