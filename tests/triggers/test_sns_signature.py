"""A message of SNS is believed for its topic, time, certificate and signature, and a stranger makes nobody fetch."""

import base64
import json
import subprocess
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import certifi
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA1

from service.domain.errors import Unauthenticated, Unavailable
from service.triggers.sns import canonical, is_certificate_url, is_confirm_url, read_envelope
from service.triggers.sns_signature import amazon_roots, verify_sns
from tests.triggers.sns_messages import (
    CONFIRM,
    NOW,
    TOPIC,
    URL,
    Authority,
    authority,
    confirmation,
    leaf,
    message,
    pem,
    signed,
    signing_key,
)


@pytest.fixture(scope="module")
def amazon() -> Authority:
    return authority()


def verify(body: bytes, by: Authority, **words: Any) -> None:
    usual: dict[str, Any] = {"topics": (TOPIC,), "fetch": by.fetch, "roots": (by.root,), "now": NOW, "headers": {}}
    words = usual | words
    verify_sns(body, words.pop("headers"), **words)


def refusal(body: bytes, by: Authority, **words: Any) -> str:
    with pytest.raises(Unauthenticated) as caught:
        verify(body, by, **words)
    return caught.value.reason


@pytest.mark.parametrize(
    "fields",
    [
        message(),
        message(Subject=None),
        message(Message='{"a": "é🙂\\n"}', Subject="é"),
        confirmation(),
        confirmation("UnsubscribeConfirmation"),
    ],
)
def test_what_sns_has_signed_is_believed(fields: dict[str, Any], amazon: Authority) -> None:
    verify(signed(fields), amazon)


def test_the_text_that_is_signed_is_the_one_of_the_documentation() -> None:
    # https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
    fields = message(
        Message="Test Message",
        MessageId="4d4dc071-ddbf-465d-bba8-08f81c89da64",
        Subject="My subject",
        Timestamp="2019-01-31T04:37:04.321Z",
        TopicArn="arn:aws:sns:us-east-2:123456789012:s4-MySNSTopic-1G1WEFCOXTC0P",
    )

    text = canonical(read_envelope(json.dumps(fields).encode(), {}))

    assert text == (
        b"Message\nTest Message\nMessageId\n4d4dc071-ddbf-465d-bba8-08f81c89da64\nSubject\nMy subject\n"
        b"Timestamp\n2019-01-31T04:37:04.321Z\nTopicArn\narn:aws:sns:us-east-2:123456789012:s4-MySNSTopic-1G1WEFCOXTC0P\n"
        b"Type\nNotification\n"
    )


def test_what_openssl_has_signed_is_believed(amazon: Authority, tmp_path: Path) -> None:
    fields = message(Message="by another program")
    text = canonical(read_envelope(json.dumps(fields).encode(), {}))
    key = tmp_path / "key.pem"
    key.write_bytes(
        signing_key().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )

    made = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", str(key)], input=text, capture_output=True, check=True
    ).stdout

    verify(json.dumps(fields | {"Signature": base64.b64encode(made).decode()}).encode(), amazon)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Message", "other"),
        ("MessageId", "other"),
        ("Subject", "other"),
        ("Subject", None),
        ("Timestamp", "2026-03-01T09:29:58.000Z"),
        ("Signature", base64.b64encode(b"x" * 256).decode()),
        ("Signature", "é"),
        ("Signature", ""),
    ],
)
def test_a_changed_field_is_seen(name: str, value: str | None, amazon: Authority) -> None:
    fields = json.loads(signed(message())) | {name: value}

    assert refusal(json.dumps(fields).encode(), amazon) == "The signature of SNS is not right."


@pytest.mark.parametrize(
    ("name", "value"), [("Token", "other"), ("SubscribeURL", CONFIRM + "1"), ("Type", "UnsubscribeConfirmation")]
)
def test_a_changed_confirmation_is_seen(name: str, value: str, amazon: Authority) -> None:
    fields = json.loads(signed(confirmation())) | {name: value}

    assert refusal(json.dumps(fields).encode(), amazon) == "The signature of SNS is not right."


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (signed(message(TopicArn=TOPIC + "2")), "The topic is not one that the source listens to."),
        (signed(message(SignatureVersion="1"), algorithm=SHA1()), "SNS signs with SHA-1 here."),
        (signed(message(SignatureVersion=None)), "SNS signs with SHA-1 here."),
        (
            signed(message(SigningCertURL="https://evil.example/a.pem")),
            "The address of the certificate is none of SNS.",
        ),
        (signed(message(SigningCertURL=None)), "The address of the certificate is none of SNS."),
        (signed(message(Timestamp="yesterday")), "`Timestamp` is no moment with an offset: 'yesterday'."),
        (b"{}", "The body is no message of SNS."),
        (b"alarm", "The body is not JSON: expecting value in line 1, column 1."),
        (b'{"Type": "Notification"}', "The message of SNS has no `MessageId`."),
    ],
)
def test_what_cannot_be_of_sns_is_refused_before_anything_is_fetched(body: bytes, reason: str) -> None:
    by = authority()

    assert refusal(body, by) == reason
    assert by.asked == []


def test_raw_delivery_is_refused_as_nobody_signs_it(amazon: Authority) -> None:
    headers = {"x-amz-sns-rawdelivery": "true"}

    reason = refusal(signed(message()), amazon, headers=headers)

    assert reason == "SNS delivers raw messages, which nobody has signed."


@pytest.mark.parametrize(("later", "known"), [(-299, True), (3598, True), (-302, False), (3600, False)])
def test_a_message_is_believed_for_an_hour(later: int, known: bool, amazon: Authority) -> None:
    now = NOW + timedelta(seconds=later)
    if known:
        verify(signed(message()), amazon, now=now)
    else:
        assert "too long ago" in refusal(signed(message()), amazon, now=now)


def test_a_certificate_that_cannot_be_had_now_is_told_as_that(amazon: Authority) -> None:
    def nobody(url: str) -> bytes:
        raise Unavailable("SNS does not answer.")

    with pytest.raises(Unavailable):
        verify(signed(message()), amazon, fetch=nobody)


NOT_OF_SNS = "The certificate is not of SNS, or no authority of Amazon stands behind it now."


def test_a_certificate_of_a_stranger_is_refused(amazon: Authority) -> None:
    stranger = authority(owner="a stranger who calls himself the same")

    assert refusal(signed(message()), stranger, roots=(amazon.root,)) == NOT_OF_SNS
    assert refusal(signed(message()), amazon, roots=()) == NOT_OF_SNS


def test_a_certificate_without_those_in_between_is_refused(amazon: Authority) -> None:
    assert refusal(signed(message()), amazon, fetch=lambda url: pem(leaf(amazon))) == NOT_OF_SNS


def test_a_certificate_of_another_name_is_refused(amazon: Authority) -> None:
    other = pem(leaf(amazon, ("s3.amazonaws.com", "evil.sns.amazonaws.com")), amazon.below)

    assert refusal(signed(message()), amazon, fetch=lambda url: other) == NOT_OF_SNS


def test_a_certificate_that_has_ended_is_refused(amazon: Authority) -> None:
    ended = pem(leaf(amazon, until=NOW - timedelta(seconds=1)), amazon.below)

    assert refusal(signed(message()), amazon, fetch=lambda url: ended) == NOT_OF_SNS


def test_a_certificate_may_name_the_host_with_its_region(amazon: Authority) -> None:
    other = pem(leaf(amazon, ("sns.us-east-1.amazonaws.com",)), amazon.below)

    verify(signed(message()), amazon, fetch=lambda url: other)


@pytest.mark.parametrize(
    "fetched", [b"", b"not a certificate", b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"]
)
def test_what_is_no_certificate_is_refused(fetched: bytes, amazon: Authority) -> None:
    assert refusal(signed(message()), amazon, fetch=lambda url: fetched) == "What was fetched is no certificate."


def test_a_key_of_another_kind_is_refused(amazon: Authority) -> None:
    other = pem(leaf(amazon, key=ec.generate_private_key(ec.SECP256R1())), amazon.below)

    reason = refusal(signed(message()), amazon, fetch=lambda url: other)

    assert reason == "The certificate of SNS has no RSA key of 2048 bits or more."


@pytest.mark.parametrize(
    ("url", "good"),
    [
        (URL, True),
        ("https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-0.pem", True),
        ("http://sns.us-east-1.amazonaws.com/a.pem", False),
        ("https://sns.us-east-1.amazonaws.com/a.crt", False),
        ("https://sns.us-east-1.amazonaws.com:443/a.pem", False),
        ("https://user@sns.us-east-1.amazonaws.com/a.pem", False),
        ("https://sns.us-east-1.amazonaws.com@evil.example/a.pem", False),
        ("https://sns.us-east-1.amazonaws.com.evil.example/a.pem", False),
        ("https://evil.example/sns.us-east-1.amazonaws.com/a.pem", False),
        ("https://bucket.s3.amazonaws.com/a.pem", False),
        ("https://sns.x.amazonaws.com/a.pem", False),
        ("https://sns.us.east.amazonaws.com/a.pem", False),
        ("https://sns.us-east-1.amazonaws.com/a.pem?x=.pem", False),
        ("https://sns.us-east-1.amazonaws.com/../a.pem", False),
        ("https://sns.us-east-1.amazonaws.com\\.evil.example/a.pem", False),
        ("https://sns.us-east-1.amazonaws.com/a.pem\n", False),
        ("https://sns.us-éast-1.amazonaws.com/a.pem", False),
        ("https://169.254.169.254/a.pem", False),
        ("", False),
    ],
)
def test_certificates_come_from_sns_alone(url: str, good: bool) -> None:
    assert is_certificate_url(url) is good


@pytest.mark.parametrize(
    ("url", "good"),
    [
        (CONFIRM, True),
        (CONFIRM.replace("https", "http"), False),
        (CONFIRM.replace("sns.us-east-1.amazonaws.com", "169.254.169.254"), False),
        (CONFIRM.replace("ConfirmSubscription", "Unsubscribe"), False),
        (CONFIRM + "&Action=Unsubscribe'><script>", False),
        (CONFIRM + "&a=" + "b" * 2000, False),
    ],
)
def test_a_confirmation_is_an_address_of_sns(url: str, good: bool) -> None:
    assert is_confirm_url(url) is good


def test_the_roots_of_amazon_are_found_in_a_bundle_of_all(amazon: Authority) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = amazon_roots(Path(certifi.where()).read_bytes())

    assert [root.subject.rfc4514_string() for root in found][:1] == ["CN=Amazon Root CA 1,O=Amazon,C=US"]
    assert amazon_roots(pem(authority("Somebody").root, amazon.root)) == (amazon.root,)
