"""What an error of AWS proves, and the words for it."""

import pytest
from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError

from service.domain.script import NotStarted
from service.executors.ssm.faults import Fault, Proof, read_fault

URL = "https://ssm.eu-central-1.amazonaws.com"


def answered(name: str, status: int = 400, message: str = "said so") -> Fault:
    response = {"Error": {"Code": name, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return read_fault(botocore.ClientError(response, "SendCommand"))


@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [
        ("InvalidInstanceId", NotStarted.UNREACHABLE, "an instance that is stopped or gone"),
        ("InvalidDocument", NotStarted.REFUSED, "whose hash is pinned"),
        ("InvalidDocumentVersion", NotStarted.REFUSED, "does not exist here"),
        ("InvalidParameters", NotStarted.REFUSED, "`commands` and `executionTimeout`"),
        ("UnsupportedPlatformType", NotStarted.REFUSED, "not for the platform"),
        ("MaxDocumentSizeExceeded", NotStarted.REFUSED, "larger than SSM takes"),
        ("ValidationException", NotStarted.REFUSED, "does not understand"),
        ("DuplicateInstanceId", NotStarted.REFUSED, "does not understand"),
        ("AccessDeniedException", NotStarted.REFUSED, "may not send this document to this instance"),
        ("ExpiredTokenException", NotStarted.REFUSED, "credentials of unstick have expired"),
        ("UnrecognizedClientException", NotStarted.REFUSED, "does not accept the credentials"),
        ("InvalidSignatureException", NotStarted.REFUSED, "does not accept the credentials"),
        ("RequestExpired", NotStarted.REFUSED, "dated more than 15 minutes"),
    ],
)
def test_a_refusal_that_names_its_reason_proves_that_nothing_was_accepted(
    name: str, cause: NotStarted, words: str
) -> None:
    fault = answered(name)

    assert (fault.proof, fault.cause, fault.name) == (Proof.NOT_ACCEPTED, cause, name)
    assert words in fault.reason
    assert f"({name}: said so)" in fault.reason
    assert fault.way_out.endswith(".")


@pytest.mark.parametrize(("name", "status"), [("ThrottlingException", 400), ("Throttling", 400), ("429", 429)])
def test_a_throttle_is_denied_before_it_is_worked_on(name: str, status: int) -> None:
    fault = answered(name, status)

    assert (fault.proof, fault.cause) == (Proof.THROTTLED, NotStarted.UNREACHABLE)
    assert "throttles SendCommand" in fault.reason


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("InternalServerError", 500),
        ("InternalFailure", 500),
        ("ServiceUnavailable", 503),
        ("ThrottlingException", 503),
        ("AccessDeniedException", 502),
        ("RequestTimeout", 408),
        ("NewError", 400),
        ("", 400),
    ],
)
def test_an_answer_that_is_not_known_to_come_first_proves_nothing(name: str, status: int) -> None:
    assert answered(name, status).proof is Proof.NONE


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (botocore.NoCredentialsError(), NotStarted.REFUSED, "has no AWS credentials"),
        (botocore.PartialCredentialsError(provider="env", cred_var="x"), NotStarted.REFUSED, "has no AWS credentials"),
        (botocore.TokenRetrievalError(provider="sso", error_msg="expired"), NotStarted.REFUSED, "have expired"),
        (botocore.UnauthorizedSSOTokenError(), NotStarted.REFUSED, "have expired"),
        (botocore.NoRegionError(), NotStarted.REFUSED, "no AWS region is known"),
        (botocore.ProfileNotFound(profile="gpu"), NotStarted.REFUSED, "config profile (gpu) could not be found"),
        (botocore.ParamValidationError(report="bad"), NotStarted.REFUSED, "does not understand"),
        (botocore.EndpointConnectionError(endpoint_url=URL), NotStarted.UNREACHABLE, "endpoint of SSM was not reached"),
        (botocore.ConnectTimeoutError(endpoint_url=URL), NotStarted.UNREACHABLE, "endpoint of SSM was not reached"),
        (
            botocore.SSLError(endpoint_url=URL, error="[SSL: CERTIFICATE_VERIFY_FAILED]"),
            NotStarted.UNREACHABLE,
            "a certificate that is not trusted",
        ),
    ],
)
def test_what_fails_before_anything_is_sent_is_proof(error: Exception, cause: NotStarted, words: str) -> None:
    fault = read_fault(error)

    assert (fault.proof, fault.cause) == (Proof.NOT_ACCEPTED, cause)
    assert words in fault.reason
    assert fault.way_out


@pytest.mark.parametrize(
    "error",
    [
        botocore.ReadTimeoutError(endpoint_url=URL),
        botocore.ConnectionClosedError(endpoint_url=URL),
        botocore.HTTPClientError(error="reset"),
        botocore.SSLError(endpoint_url=URL, error="record layer failure"),
        botocore.BotoCoreError(),
        ResponseParserError("not JSON"),
        ValueError("a time that is none"),
        ConnectionResetError("reset"),
    ],
)
def test_a_broken_conversation_proves_nothing(error: Exception) -> None:
    fault = read_fault(error)

    assert fault.proof is Proof.NONE
    assert fault.reason.startswith("the answer of SSM was lost (")


def test_what_goes_wrong_while_the_client_is_made_is_proof() -> None:
    fault = read_fault(ValueError("Invalid endpoint: nonsense"), asked=False)

    assert (fault.proof, fault.reason) == (Proof.NOT_ACCEPTED, "Invalid endpoint: nonsense")
    assert "AWS_ENDPOINT_URL_SSM" in fault.way_out
