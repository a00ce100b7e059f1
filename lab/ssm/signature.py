"""Signature Version 4 of a request, checked with botocore's own signer."""

import calendar
import hmac
import re
import time
from collections.abc import Mapping

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lab.ssm.errors import Refusal

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?"
    r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})"
)
SKEW_SECONDS = 300


class Key:
    """The one pair of credentials that a server knows."""

    def __init__(self, identity: str, secret: str, region: str) -> None:
        """Keep them, and the region that signatures must be for."""
        self._credentials = Credentials(identity, secret)
        self._region = region

    def check(self, url: str, body: bytes, headers: Mapping[str, str], *, skew: float) -> None:
        """Refuse a request that is not signed with the key for this service, region and time; headers in lower case."""
        if "authorization" not in headers:
            raise Refusal("MissingAuthenticationTokenException", "Missing Authentication Token")
        found = AUTHORIZATION.fullmatch(headers["authorization"])
        stamp = headers.get("x-amz-date", "")
        if found is None or not re.fullmatch(r"\d{8}T\d{6}Z", stamp):
            raise Refusal("IncompleteSignatureException", "Authorization or X-Amz-Date is not as it must be.")
        identity, _, region, service, signed, signature = found.groups()
        if identity != self._credentials.access_key:
            raise Refusal("UnrecognizedClientException", "The security token included in the request is invalid.")
        if (region, service) != (self._region, "ssm"):
            raise _invalid(f"Credential should be scoped to {self._region} and ssm, not to {region} and {service}.")
        sent = calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ"))
        if abs(time.time() + skew - sent) > SKEW_SECONDS:
            raise _invalid(f"Signature expired or not yet current: {stamp}")
        names = signed.split(";")
        request = AWSRequest("POST", url, data=body, headers={name: headers.get(name, "") for name in names})
        request.context["timestamp"] = stamp
        signer = SigV4Auth(self._credentials, service, region)
        expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        if not hmac.compare_digest(expected, signature):
            raise _invalid("The request signature we calculated does not match the signature you provided.")


def _invalid(why: str) -> Refusal:
    return Refusal("InvalidSignatureException", why)
