"""Asks a provider over HTTP: bounded in time and size, no further than the address that was named."""

import json
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from service.app.web_addresses import LOOPBACK, check_url
from service.domain.bounded_bytes import whole
from service.domain.errors import ConfigInvalid, ProviderSilent

#: Each wait takes at most so long, and all of one answer together (seconds).
PATIENCE: Final = 5.0
_WHOLE: Final = 15.0
_MOST_BYTES: Final = 512 * 1024
_WAY_OUT: Final = "Sign in with a token, or try again in a while."


class ProviderHttp:
    """Speaks to one provider; redirects are not followed, and what it says stays here."""

    def __init__(self, name: str, issuer: str, *, patience: float = PATIENCE) -> None:
        """Name the provider as people call it; wait at most so many seconds for each packet."""
        self._name = name
        self._on_this_machine = urlsplit(issuer).hostname in LOOPBACK
        self._patience = patience

    def get(self, url: str, *, what: str) -> dict[str, Any]:
        """Return a JSON object; ProviderSilent."""
        status, value = self._ask("GET", url, what=what)
        if status != 200:
            raise self._silent(f"its {what} answered {status}")
        return value

    def post(
        self, url: str, form: Mapping[str, str], *, headers: Mapping[str, str], what: str
    ) -> tuple[int, dict[str, Any]]:
        """Send a form, and return status and JSON object; ProviderSilent when there is none."""
        return self._ask("POST", url, what=what, form=form, headers=headers)

    def _ask(
        self,
        method: str,
        url: str,
        *,
        what: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        self._insist(url, what=what)
        timeout, ends = httpx.Timeout(self._patience), time.monotonic() + _WHOLE
        given = {"accept": "application/json", "user-agent": "unstick", **(headers or {})}
        try:
            with (
                # A proxy of the surroundings is not asked for what is on this machine.
                httpx.Client(timeout=timeout, follow_redirects=False, trust_env=not self._on_this_machine) as client,
                client.stream(method, url, data=form, headers=given) as answer,
            ):
                body = whole(answer.iter_bytes(), most=_MOST_BYTES, late=lambda: time.monotonic() > ends)
                if body is None:
                    raise self._silent(f"its {what} answers without an end")
                return answer.status_code, self._object(body, answer.status_code, what=what)
        except httpx.TimeoutException as error:
            raise self._silent(f"its {what} did not answer within {self._patience:g} seconds") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise self._silent(f"its {what} cannot be reached ({type(error).__name__})") from error

    def _insist(self, url: str, *, what: str) -> None:
        """Refuse an address that is not by TLS; on this machine none is asked for a provider that is elsewhere."""
        try:
            check_url(url, what=f"The {what}")
        except ConfigInvalid as error:
            raise self._silent(f"its {what} has an address that may not be used") from error
        if urlsplit(url).hostname in LOOPBACK and not self._on_this_machine:
            raise self._silent(f"its {what} has an address that may not be used")

    def _object(self, body: bytes, status: int, *, what: str) -> dict[str, Any]:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self._silent(f"its {what} answered {status}, and no JSON") from error
        if not isinstance(value, dict):
            raise self._silent(f"its {what} answered {status}, and no JSON object")
        return value

    def _silent(self, why: str) -> ProviderSilent:
        return ProviderSilent(f"{self._name} does not answer as it should: {why}.", _WAY_OUT)
