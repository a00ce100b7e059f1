"""A sender is known by its signature over the raw bytes, for as long as that is fresh, and by nothing else."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from service.domain.alert import AlertSourceKind
from service.domain.errors import ConfigInvalid, Unauthenticated
from service.domain.rule import AlertSource
from service.triggers.receivers import SourceReceivers
from service.triggers.signatures import (
    check_secret,
    presented_token,
    verify_grafana,
    verify_pagerduty,
    verify_standard,
)

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
BODY = '{"alerts": [{"title": "é🙂"}]}'.encode()
OLD, NEW = "whsec_" + base64.b64encode(b"o" * 32).decode(), "whsec_" + base64.b64encode(b"n" * 32).decode()

Sign = Callable[..., dict[str, str]]


def hexed(secret: str, text: bytes) -> str:
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def by_grafana(secret: str, body: bytes, at: datetime) -> dict[str, str]:
    seconds = str(int(at.timestamp()))
    return {
        "x-grafana-alerting-signature": hexed(secret, seconds.encode() + b":" + body),
        "x-grafana-alerting-timestamp": seconds,
    }


def by_pagerduty(secret: str, body: bytes, at: datetime) -> dict[str, str]:
    return {"x-pagerduty-signature": f"v1={hexed(secret, body)}"}


def by_standard(secret: str, body: bytes, at: datetime) -> dict[str, str]:
    signature = Webhook(secret).sign("msg_1", at, body.decode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signature}


KINDS = [
    pytest.param(by_grafana, verify_grafana, "x-grafana-alerting-signature", id="grafana"),
    pytest.param(by_pagerduty, verify_pagerduty, "x-pagerduty-signature", id="pagerduty"),
    pytest.param(by_standard, verify_standard, "webhook-signature", id="standard"),
]
TIMED = [kind for kind in KINDS if kind.id != "pagerduty"]
each_kind = pytest.mark.parametrize(("sign", "verify", "header"), KINDS)
each_timed = pytest.mark.parametrize(("sign", "verify", "header"), TIMED)


def refusal(verify: Callable[..., None], body: bytes, headers: dict[str, str], secrets: Sequence[str] = (NEW,)) -> str:
    with pytest.raises(Unauthenticated) as caught:
        verify(body, headers, secrets=secrets, now=NOW)
    return caught.value.reason


@each_kind
@pytest.mark.parametrize("body", [BODY, b"", b"{}"])
def test_a_right_signature_is_known(sign: Sign, verify: Callable[..., None], header: str, body: bytes) -> None:
    verify(body, sign(NEW, body, NOW), secrets=[NEW], now=NOW)


@each_kind
@pytest.mark.parametrize("signed_by", [OLD, NEW])
def test_while_a_secret_is_changed_both_are_known(
    sign: Sign, verify: Callable[..., None], header: str, signed_by: str
) -> None:
    verify(BODY, sign(signed_by, BODY, NOW), secrets=[NEW, OLD], now=NOW)


@each_kind
def test_a_secret_that_was_taken_away_is_known_no_longer(sign: Sign, verify: Callable[..., None], header: str) -> None:
    assert refusal(verify, BODY, sign(OLD, BODY, NOW)) == "No signature of the delivery is right."


@each_kind
@pytest.mark.parametrize("body", [BODY + b" ", BODY[:-1], BODY.replace(b"alerts", b"Alerts"), b""])
def test_another_body_is_seen(sign: Sign, verify: Callable[..., None], header: str, body: bytes) -> None:
    assert refusal(verify, body, sign(NEW, BODY, NOW)) == "No signature of the delivery is right."


@each_kind
@pytest.mark.parametrize(
    "value",
    ["", "é", "\udcff", "v1=", "v1,", "v1=é,v1=\udcff", "v1,é v1,\udcff", "=", ",,,,", "sha256=00", "0" * 100_000],
)
def test_a_header_that_is_no_signature_is_refused(
    sign: Sign, verify: Callable[..., None], header: str, value: str
) -> None:
    headers = sign(NEW, BODY, NOW) | {header: value}

    assert refusal(verify, BODY, headers) == "No signature of the delivery is right."


@each_kind
def test_no_header_at_all_is_refused(sign: Sign, verify: Callable[..., None], header: str) -> None:
    assert refusal(verify, BODY, {})


@each_kind
@pytest.mark.parametrize("secrets", [[], [""]])
def test_without_a_secret_nobody_is_known(
    sign: Sign, verify: Callable[..., None], header: str, secrets: list[str]
) -> None:
    headers = sign(NEW, BODY, NOW)
    if header != "webhook-signature":
        headers = sign("", BODY, NOW)

    assert refusal(verify, BODY, headers, secrets) == "The source has no secret."


@each_kind
def test_a_signature_in_another_case_or_cut_short_is_refused(
    sign: Sign, verify: Callable[..., None], header: str
) -> None:
    right = sign(NEW, BODY, NOW)

    for wrong in (right[header].swapcase(), right[header][:-1], right[header] + "0"):
        assert refusal(verify, BODY, right | {header: wrong}) == "No signature of the delivery is right."


@each_timed
@pytest.mark.parametrize("seconds", [-300, 0, 300])
def test_a_signature_is_fresh_for_five_minutes(
    sign: Sign, verify: Callable[..., None], header: str, seconds: int
) -> None:
    verify(BODY, sign(NEW, BODY, NOW + timedelta(seconds=seconds)), secrets=[NEW], now=NOW)


@each_timed
@pytest.mark.parametrize("seconds", [-301, 301, -86400, 10**9])
def test_a_signature_that_is_sent_again_later_is_refused(
    sign: Sign, verify: Callable[..., None], header: str, seconds: int
) -> None:
    headers = sign(NEW, BODY, NOW + timedelta(seconds=seconds))

    assert refusal(verify, BODY, headers) == "The time of the signature is too far from now."


@each_timed
def test_another_time_is_seen(sign: Sign, verify: Callable[..., None], header: str) -> None:
    headers = sign(NEW, BODY, NOW)
    time = next(name for name in headers if "timestamp" in name)
    headers[time] = str(int(headers[time]) + 1)

    assert refusal(verify, BODY, headers) == "No signature of the delivery is right."


@each_timed
@pytest.mark.parametrize("value", [None, "", "now", "1.5", "-1", "+1", "1e9", "١٢٣", "1" * 13, " 1", "1\n"])
def test_a_time_that_is_no_count_of_seconds_is_refused(
    sign: Sign, verify: Callable[..., None], header: str, value: str | None
) -> None:
    headers = sign(NEW, BODY, NOW)
    time = next(name for name in headers if "timestamp" in name)
    changed = {name: text for name, text in (headers | {time: value}).items() if text is not None}

    assert refusal(verify, BODY, changed) == "The signature carries no time in seconds."


def test_grafana_without_a_time_is_refused_since_it_could_be_sent_for_ever() -> None:
    headers = {"x-grafana-alerting-signature": hexed(NEW, BODY)}

    assert refusal(verify_grafana, BODY, headers) == "The signature carries no time in seconds."


def test_grafanas_other_names_of_headers_are_known() -> None:
    seconds = str(int(NOW.timestamp()))
    headers = {
        "x-grafana-alert-signature": hexed(NEW, f"{seconds}:".encode() + BODY),
        "x-grafana-alerting-signature-timestamp": seconds,
    }

    verify_grafana(BODY, headers, secrets=[NEW], now=NOW)


@pytest.mark.parametrize("place", range(3))
def test_one_right_signature_among_several_is_enough(place: int) -> None:
    wrong = [f"v1={'0' * 64}", f"v2={hexed(NEW, BODY)}"]
    wrong.insert(place, f"v1={hexed(NEW, BODY)}")

    verify_pagerduty(BODY, {"x-pagerduty-signature": ",".join(wrong)}, secrets=[NEW], now=NOW)
    verify_pagerduty(BODY, {"x-pagerduty-signature": ", ".join(wrong)}, secrets=[NEW], now=NOW)


def test_one_right_signature_among_several_is_enough_for_standard_webhooks() -> None:
    headers = by_standard(NEW, BODY, NOW)
    headers["webhook-signature"] = f"v1a,{'A' * 86}== {'v1,' + 'A' * 43}= {headers['webhook-signature']}"

    verify_standard(BODY, headers, secrets=[NEW], now=NOW)


@pytest.mark.parametrize(
    ("verify", "header", "value"),
    [
        (verify_pagerduty, "x-pagerduty-signature", f"v2={hexed(NEW, BODY)}"),
        (verify_pagerduty, "x-pagerduty-signature", hexed(NEW, BODY)),
        (verify_standard, "webhook-signature", by_standard(NEW, BODY, NOW)["webhook-signature"].replace("v1,", "v1a,")),
        (verify_standard, "webhook-signature", by_standard(NEW, BODY, NOW)["webhook-signature"].removeprefix("v1,")),
    ],
)
def test_a_signature_of_another_scheme_is_refused(verify: Callable[..., None], header: str, value: str) -> None:
    headers = by_standard(NEW, BODY, NOW) | {header: value}

    assert refusal(verify, BODY, headers) == "No signature of the delivery is right."


def test_more_signatures_than_a_change_of_secrets_has_are_not_looked_at() -> None:
    value = ",".join([f"v1={'0' * 64}"] * 8 + [f"v1={hexed(NEW, BODY)}"])

    assert refusal(verify_pagerduty, BODY, {"x-pagerduty-signature": value}) == "No signature of the delivery is right."


def test_the_signature_that_standard_webhooks_publishes_is_known() -> None:
    # https://github.com/standard-webhooks/standard-webhooks, libraries/python/tests/test_webhooks.py
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    at = datetime.fromtimestamp(1614265330, UTC)

    verify_standard(b'{"test": 2432232314}', headers, secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], now=at)


def test_the_digest_that_is_published_for_hmac_is_ours() -> None:
    # RFC 4231, test case 2; GitHub and PagerDuty write the same digest in hex.
    body, digest = b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"

    verify_pagerduty(body, {"x-pagerduty-signature": f"v1={digest}"}, secrets=["Jefe"], now=NOW)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
def test_the_name_and_time_of_a_delivery_are_signed(name: str) -> None:
    headers = by_standard(NEW, BODY, NOW)
    other = {"webhook-id": "msg_2", "webhook-timestamp": str(int(NOW.timestamp()) + 5)}

    assert refusal(verify_standard, BODY, headers | {name: other[name]}) == "No signature of the delivery is right."


def test_a_delivery_without_a_name_is_refused() -> None:
    headers = by_standard(NEW, BODY, NOW) | {"webhook-id": ""}

    assert refusal(verify_standard, BODY, headers) == "The header webhook-id is missing."


@given(body=st.binary(max_size=200), at=st.integers(0, 4 * 10**9))
def test_whatever_another_implementation_signs_is_known(body: bytes, at: int) -> None:
    moment = datetime.fromtimestamp(at, UTC)
    text = body.decode("latin-1")

    verify_standard(text.encode(), by_standard(NEW, text.encode(), moment), secrets=[OLD, NEW], now=moment)


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("Bearer unstick_abc", "unstick_abc"),
        ("bearer  unstick_abc ", "unstick_abc"),
        ("Basic " + base64.b64encode(b"prom:unstick_abc").decode(), "unstick_abc"),
        ("Basic " + base64.b64encode(b":a:b").decode(), "a:b"),
    ],
)
def test_a_token_comes_as_bearer_or_as_password(value: str, token: str) -> None:
    assert presented_token({"authorization": value}) == token


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Digest abc",
        "Basic",
        "Basic !",
        "Basic é",
        "Basic /w==",
        "Basic " + base64.b64encode(b"a").decode(),
    ],
)
def test_without_a_token_nobody_is_known(value: str) -> None:
    with pytest.raises(Unauthenticated, match="There is no token in the header Authorization"):
        presented_token({"authorization": value})


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        (AlertSourceKind.GENERIC, "whsec_"),
        (AlertSourceKind.GENERIC, "whsec_!" + "A" * 40),
        (AlertSourceKind.GENERIC, "whsec_" + base64.b64encode(b"a" * 23).decode()),
        (AlertSourceKind.GENERIC, "whsec_" + base64.b64encode(b"a" * 65).decode()),
        (AlertSourceKind.GENERIC, base64.b64encode(b"a" * 32).decode()),
        (AlertSourceKind.GRAFANA, "short"),
        (AlertSourceKind.PAGERDUTY, ""),
    ],
)
def test_a_secret_that_could_be_guessed_is_refused_where_it_is_read(kind: AlertSourceKind, secret: str) -> None:
    with pytest.raises(ConfigInvalid):
        check_secret(kind, secret)


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        (AlertSourceKind.GENERIC, NEW),
        (AlertSourceKind.GENERIC, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        (AlertSourceKind.GENERIC, "whsec_" + base64.b64encode(b"a" * 64).decode().rstrip("=")),
        (AlertSourceKind.GRAFANA, "correct horse battery staple"),
    ],
)
def test_a_good_secret_is_taken(kind: AlertSourceKind, secret: str) -> None:
    check_secret(kind, secret)


def test_no_signature_stands_for_an_alertmanager() -> None:
    receivers = SourceReceivers(fetch=lambda _: b"", roots=lambda: ())

    with pytest.raises(Unauthenticated, match="it shows a token"):
        receivers.verify(AlertSource("prom", AlertSourceKind.ALERTMANAGER), BODY, headers={}, now=NOW)
