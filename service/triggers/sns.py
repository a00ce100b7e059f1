"""The envelope of Amazon SNS, in which CloudWatch's words come, and the text that its signature covers.

https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.domain.errors import InvalidInput
from service.triggers.body import Fields, read_object, text_at

# Storage that anybody may rent lies below amazonaws.com as well, so the host is SNS' own and nothing else is let in:
# no port, no user, no second name behind a sign that one reader of addresses takes otherwise than another.
_HOST = r"https://sns\.[a-zA-Z0-9-]{3,}\.amazonaws\.com(?:\.cn)?"
_CERTIFICATE_URL = re.compile(_HOST + r"/[A-Za-z0-9_-]{1,100}\.pem", re.ASCII)
_CONFIRM_URL = re.compile(_HOST + r"/\?(?:[\w.~%:=-]+&)*Action=ConfirmSubscription(?:&[\w.~%:=-]+)*", re.ASCII)


class SnsType(StrEnum):
    """What SNS sends."""

    NOTIFICATION = "Notification"
    SUBSCRIPTION = "SubscriptionConfirmation"
    UNSUBSCRIPTION = "UnsubscribeConfirmation"


@dataclass(frozen=True)
class SnsEnvelope:
    """One message of SNS as it came; nothing in it is believed before its signature is."""

    type: SnsType
    message_id: str
    topic: str
    message: str
    #: RFC 3339, as it was signed.
    timestamp: str
    #: None where there is none; an empty one is not sent.
    subject: str | None
    #: Of the two confirmations.
    subscribe_url: str
    token: str
    signature: str
    signature_version: str
    certificate_url: str


def read_envelope(body: bytes, headers: Mapping[str, str]) -> SnsEnvelope:
    """Return the envelope, whatever the content type says (SNS says text/plain); InvalidInput when it is none."""
    if headers.get("x-amz-sns-rawdelivery", "").lower() == "true":
        raise InvalidInput(
            "SNS delivers raw messages, which nobody has signed.", "Turn raw message delivery off in the subscription."
        )
    fields = read_object(body)
    try:
        kind = SnsType(text_at(fields, "Type"))
    except ValueError as error:
        raise InvalidInput("The body is no message of SNS.", "Subscribe the address to an SNS topic.") from error
    return SnsEnvelope(
        kind,
        message_id=_needed(fields, "MessageId"),
        topic=_needed(fields, "TopicArn"),
        message=text_at(fields, "Message"),
        timestamp=_needed(fields, "Timestamp"),
        subject=text_at(fields, "Subject") or None,
        subscribe_url=text_at(fields, "SubscribeURL"),
        token=text_at(fields, "Token"),
        signature=text_at(fields, "Signature"),
        signature_version=text_at(fields, "SignatureVersion"),
        certificate_url=text_at(fields, "SigningCertURL"),
    )


def canonical(envelope: SnsEnvelope) -> bytes:
    """Return the bytes that the signature covers: name and value of each field in byte order, a line each."""
    fields = {
        "Message": envelope.message,
        "MessageId": envelope.message_id,
        "Timestamp": envelope.timestamp,
        "TopicArn": envelope.topic,
        "Type": envelope.type.value,
    }
    match envelope.type:
        case SnsType.NOTIFICATION:
            if envelope.subject is not None:
                fields["Subject"] = envelope.subject
        case SnsType.SUBSCRIPTION | SnsType.UNSUBSCRIPTION:
            fields |= {"SubscribeURL": envelope.subscribe_url, "Token": envelope.token}
    return "".join(f"{name}\n{fields[name]}\n" for name in sorted(fields)).encode("utf-8")


def is_certificate_url(url: str) -> bool:
    """Return whether a certificate may be fetched from this address: over https from SNS itself."""
    return _CERTIFICATE_URL.fullmatch(url) is not None


def is_confirm_url(url: str) -> bool:
    """Return whether an operator may be shown this address to confirm a subscription."""
    return len(url) <= 2000 and _CONFIRM_URL.fullmatch(url) is not None


def _needed(fields: Fields, name: str) -> str:
    value = text_at(fields, name)
    if not value:
        raise InvalidInput(f"The message of SNS has no `{name}`.")
    return value
