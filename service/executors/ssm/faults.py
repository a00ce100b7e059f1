"""What an error of AWS proves of the command that was to be sent, in our words.

Only an answer of the service that names an error known to come before anything is accepted proves that nothing was.
A timeout, a broken connection, a 5xx and a name that is not in the table prove nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError

from service.domain.errors import UnstickError
from service.domain.script import NotStarted

#: What boto3 raises. ResponseParserError is none of its own tree; a wrong endpoint or a wrong time is a ValueError.
RAISED = (botocore.BotoCoreError, botocore.ClientError, ResponseParserError, ValueError, OSError)


class Proof(StrEnum):
    """What is known of a command after an error."""

    #: The service did not accept it, or never got it.
    NOT_ACCEPTED = "not_accepted"
    #: The same, and a little later it may be accepted.
    THROTTLED = "throttled"
    #: It may have been accepted.
    NONE = "none"


@dataclass(frozen=True)
class _Words:
    said: str
    way_out: str
    cause: NotStarted = NotStarted.REFUSED
    #: Whether it may be about one instance among several.
    of_instance: bool = False


class Fault(UnstickError):
    """AWS did not do what was asked."""

    code = "aws"

    def __init__(self, proof: Proof, words: _Words, *, name: str) -> None:
        """Keep what it proves, and the name under which AWS knows it."""
        super().__init__(words.said, words.way_out)
        self.proof = proof
        self.cause = words.cause
        self.of_instance = words.of_instance
        self.name = name

    @classmethod
    def lost(cls, said: str) -> "Fault":
        """Return the fault of an answer that proves nothing."""
        return cls(Proof.NONE, _Words(said, ""), name="")


_CREDENTIALS = _Words(
    "AWS does not accept the credentials of unstick",
    "Look with `aws sts get-caller-identity` as the user and with the environment of the service.",
)
_EXPIRED = _Words(
    "the AWS credentials of unstick have expired",
    "Renew them (`aws sso login`, or what issues them); an instance profile or a role renews itself.",
)
_NO_CREDENTIALS = _Words(
    "unstick has no AWS credentials",
    "Give the service a role, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `profile` in inventory.yaml.",
)
_DENIED = _Words(
    "the identity of unstick may not send this document to this instance",
    "Allow it ssm:SendCommand on both; `aws sts get-caller-identity` shows who it is.",
    of_instance=True,
)
_INSTANCE = _Words(
    "SSM does not know the instance as one that it can reach: another account or region, an agent that does not run or "
    "is not registered, a role without AmazonSSMManagedInstanceCore, or an instance that is stopped or gone",
    "Compare `aws sts get-caller-identity` and `region` with where the instance is, "
    "and look at amazon-ssm-agent there.",
    NotStarted.UNREACHABLE,
    of_instance=True,
)
_DOCUMENT = _Words(
    "the SSM document does not exist here, or is not the one whose hash is pinned",
    "Compare `document` and `document_hash` in inventory.yaml with `aws ssm describe-document`.",
)
_PARAMETERS = _Words(
    "the SSM document does not take our parameters `commands` and `executionTimeout`",
    "Use AWS-RunShellScript, or a document of your own that declares both without a pattern that forbids base64.",
)
_PLATFORM = _Words(
    "the SSM document is not for the platform of this instance",
    "Scripts are for Linux; take the instance out of the inventory.",
    of_instance=True,
)
_TOO_LARGE = _Words("the script is larger than SSM takes", "Shorten the script or its prelude.")
_OURS = _Words("SSM does not understand what unstick sent", "This is a defect of unstick: report it with this text.")
_CLOCK = _Words(
    "the request was dated more than 15 minutes from the time of AWS", "Set the clock of this machine (chronyc)."
)
_THROTTLED = _Words(
    "AWS throttles SendCommand of this account and region",
    "Fewer nodes at a time (`concurrent_nodes`), or a higher quota; see what else calls SSM.",
    NotStarted.UNREACHABLE,
)

_NAMES: Mapping[str, _Words] = {
    name: words
    for names, words in (
        ("InvalidInstanceId", _INSTANCE),
        ("InvalidDocument InvalidDocumentVersion InvalidDocumentContent", _DOCUMENT),
        ("InvalidParameters", _PARAMETERS),
        ("UnsupportedPlatformType", _PLATFORM),
        ("MaxDocumentSizeExceeded RequestEntityTooLarge RequestEntityTooLargeException", _TOO_LARGE),
        ("ValidationException ValidationError DuplicateInstanceId InvalidOutputFolder InvalidRole", _OURS),
        ("InvalidNotificationConfig SerializationException UnknownOperationException InvalidAction", _OURS),
        ("AccessDeniedException AccessDenied NotAuthorized UnauthorizedOperation", _DENIED),
        ("ExpiredTokenException ExpiredToken", _EXPIRED),
        ("UnrecognizedClientException InvalidClientTokenId InvalidAccessKeyId AuthFailure OptInRequired", _CREDENTIALS),
        ("InvalidSignatureException SignatureDoesNotMatch IncompleteSignature", _CREDENTIALS),
        ("IncompleteSignatureException MissingAuthenticationToken MissingAuthenticationTokenException", _CREDENTIALS),
        ("RequestExpired RequestTimeTooSkewed", _CLOCK),
    )
    for name in names.split()
}
# "The request was denied due to request throttling" (AWS, Common Errors): it is judged before it is worked on.
_THROTTLES = frozenset(
    {
        "ThrottlingException",
        "Throttling",
        "ThrottledException",
        "RequestThrottledException",
        "RequestThrottled",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        # An answer without a body has its HTTP status for a name.
        "429",
    }
)


def read_fault(error: Exception, *, asked: bool = True) -> Fault:
    """Return what an error of boto3 says and proves; `asked` when a request was on its way to be made."""
    if isinstance(error, botocore.ClientError):
        return _answered(error)
    name = type(error).__name__
    before = _before_sending(error)
    if before is None and not asked:
        before = _Words(_first_line(error), "Correct AWS_ENDPOINT_URL_SSM, the variables AWS_*, or ~/.aws/config.")
    if before is not None:
        return Fault(Proof.NOT_ACCEPTED, before, name=name)
    return Fault.lost(f"the answer of SSM was lost ({_first_line(error)})")


def _answered(error: botocore.ClientError) -> Fault:
    name = str(error.response.get("Error", {}).get("Code", ""))
    message = str(error.response.get("Error", {}).get("Message", "")).strip().rstrip(".")[:300]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    refused = 400 <= int(status or 0) < 500
    words = _THROTTLED if name in _THROTTLES else _NAMES.get(name)
    if words is None or not refused:
        said = f"SSM answered {name or 'an error without a name'} ({status}{f': {message}' if message else ''})"
        return Fault.lost(said)
    proof = Proof.THROTTLED if words is _THROTTLED else Proof.NOT_ACCEPTED
    told = f"{name}: {message}" if message else name
    return Fault(proof, _with_detail(words, told), name=name)


def _with_detail(words: _Words, detail: str) -> _Words:
    return _Words(f"{words.said} ({detail})", words.way_out, words.cause, words.of_instance)


def _before_sending(error: Exception) -> _Words | None:
    """Return the words for an error that comes before anything is sent, or None."""
    match error:
        case botocore.NoCredentialsError() | botocore.PartialCredentialsError():
            return _NO_CREDENTIALS
        case (
            botocore.TokenRetrievalError()
            | botocore.UnauthorizedSSOTokenError()
            | botocore.SSOTokenLoadError()
            | botocore.RefreshWithMFAUnsupportedError()
        ):
            return _EXPIRED
        case botocore.CredentialRetrievalError() | botocore.MetadataRetrievalError():
            return _with_detail(_NO_CREDENTIALS, _first_line(error))
        case botocore.NoRegionError():
            return _Words("no AWS region is known", "Write `region` at the node in inventory.yaml, or set AWS_REGION.")
        case botocore.ProfileNotFound():
            return _Words(f"{_first_line(error)}", "Correct `profile` in inventory.yaml, or ~/.aws/config.")
        case botocore.ParamValidationError():
            return _with_detail(_OURS, _first_line(error))
        case botocore.EndpointConnectionError() | botocore.ConnectTimeoutError() | botocore.ProxyConnectionError():
            return _unreached(error)
        case botocore.SSLError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return _Words(
                f"whoever answers for SSM shows a certificate that is not trusted ({_first_line(error)})",
                "Set AWS_CA_BUNDLE when a proxy stands between, else find out who answers.",
                NotStarted.UNREACHABLE,
            )
        case botocore.InvalidRegionError() | botocore.UnknownEndpointError() | botocore.ConfigParseError():
            return _Words(_first_line(error), "Correct `region` in inventory.yaml, or ~/.aws/config.")
        case _:
            return None


def _unreached(error: Exception) -> _Words:
    return _Words(
        f"the endpoint of SSM was not reached ({_first_line(error)})",
        "Look at the network, the proxy, `region`, and AWS_ENDPOINT_URL_SSM.",
        NotStarted.UNREACHABLE,
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".")[:300] if lines else type(error).__name__
