"""Speaks to the REST API of a running service. Values are JSON as the service sends it."""

import time
import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from service.domain.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    Unauthenticated,
    Unavailable,
    UnstickError,
)

Json = Mapping[str, Any]

_API: Final = "/api/v1"
_ERRORS: Final[Mapping[int, type[UnstickError]]] = {
    kind.status: kind for kind in (InvalidInput, Unauthenticated, Forbidden, NotFound, Conflict, Unavailable)
}
#: Hosts that are this machine.
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_HOW_TO_GET_ONE: Final = (
    "On the service's host: unstick token create --name YOU --role operator "
    "(in place of a lost one: a new --name, and --person YOU)"
)
#: Pauses before a request whose answer was lost is sent again, under the same idempotency key.
_PAUSES: Final = (0.5, 1.0, 2.0, 4.0)
#: So often, and at most for so long each time (seconds), a client waits that has asked too much at once.
_MOST_WAITS: Final = 5
_LONGEST_WAIT: Final = 10


class Client:
    """A person's way to the service; errors are those of the service, with its reason and way out."""

    def __init__(self, url: str, token: str) -> None:
        """Speak to the service at this URL, for the owner of this token."""
        self._url = url
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=httpx.Timeout(30.0, connect=5.0),
            # A proxy of the surroundings is not asked for what is on this machine.
            trust_env=urlsplit(url).hostname not in LOOPBACK,
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, **query: Any) -> Any:
        """Read something, such as `/runs`; a query value of None is left out. Unavailable when nobody answers."""
        return self._value(self._ask("GET", path, query=query))

    def items(self, path: str, **query: Any) -> Iterator[Any]:
        """Yield every item of a list, page after page."""
        cursor: str | None = None
        while True:
            page = self.get(path, **query, cursor=cursor)
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def text(self, path: str, **query: Any) -> str:
        """Read something that is text: the output of an attempt, a timeline."""
        return self._ask("GET", path, query=query).text

    def post(self, path: str, body: Json) -> Any:
        """Send something once. Unavailable says when it may have arrived."""
        answer = self._ask("POST", path, body=body)
        return self._value(answer) if answer.content else {}

    def request(self, path: str, body: Json, *, key: str | None = None) -> Any:
        """Send a request for a run; a lost answer is asked for again, since the key makes it the same run."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        for pause in _PAUSES:
            try:
                return self._value(self._ask("POST", path, body=body, headers=headers))
            except _AnswerLost:
                time.sleep(pause)
        return self._value(self._ask("POST", path, body=body, headers=headers))

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Json | None = None,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        given = {name: _word(value) for name, value in (query or {}).items() if value is not None}
        try:
            response = self._send(method, path, params=given, json=body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unavailable(
                f"Nobody answers at {self._url}.",
                "Start the service with `unstick serve`, or set UNSTICK_URL to where it is.",
            ) from error
        except httpx.RequestError as error:
            sent = "" if method == "GET" else " What was asked may have been done: look with `unstick runs`."
            raise _AnswerLost(
                f"The answer of {self._url} was lost: {error or type(error).__name__}.{sent}",
                "Then type it again; `unstick doctor` on the service's host examines it.",
            ) from error
        except UnicodeEncodeError as error:
            raise InvalidInput("What was typed is not text in UTF-8; nothing was asked.", "Type it again.") from error
        if response.is_success:
            return response
        raise _refusal(response)

    def _value(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise Unavailable(
                f"{self._url} answers {response.status_code}, and not as unstick does.",
                "Is UNSTICK_URL its address, and nothing else before it? `unstick doctor --server URL` looks.",
            ) from error

    def _send(
        self, method: str, path: str, *, params: Json, json: Json | None, headers: Mapping[str, str] | None
    ) -> httpx.Response:
        """Send a request, and again after the time that the service names: what it answers with 429 it has not done."""
        for _ in range(_MOST_WAITS):
            response = self._http.request(method, _API + path, params=params, json=json, headers=headers)
            after = response.headers.get("Retry-After", "")
            if response.status_code != 429 or not (after.isascii() and after.isdigit()):
                break
            time.sleep(min(int(after), _LONGEST_WAIT))
        return response


class _AnswerLost(Unavailable):
    """The request was sent, and no answer came."""


def connect(url: str, token: str | None) -> Client:
    """Return a client; Unauthenticated when there is no token."""
    if not token:
        raise Unauthenticated(
            "UNSTICK_TOKEN is not set, so the service would not know who asks.",
            _HOW_TO_GET_ONE,
        )
    return Client(url, token)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _refusal(response: httpx.Response) -> UnstickError:
    """Return the service's refusal (RFC 9457) as the error that it was."""
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    reason = str(problem.get("detail") or problem.get("title") or f"The service answered {response.status_code}.")
    for fault in problem.get("errors") or ():
        told = f"{fault.get('where')}: {str(fault.get('reason')).removesuffix('.')}"
        # The detail has the first few of them already.
        reason += "" if told in reason else f" {told}."
    way_out = str(problem.get("way_out") or "")
    if response.status_code == Unauthenticated.status:
        reason, way_out = "The token in UNSTICK_TOKEN is not valid.", _HOW_TO_GET_ONE
    kind = _ERRORS.get(response.status_code)
    if kind is not None:
        return kind(reason, way_out)
    if response.status_code < 500:
        return InvalidInput(reason, way_out)
    return Unavailable(reason, way_out or "The log of the service says more.")
