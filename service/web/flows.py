"""Signing in by a provider, from the button to the provider's answer: what ties both to one browser.

The cookie holds nothing that is worth stealing: nonce and verifier are made from the state with a key that is new at
each start of the service. So nothing is kept for whoever presses the button and goes away, however many do.
"""

import hmac
import secrets
import threading
from base64 import urlsafe_b64encode
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

from service.app.login_ports import Flow
from service.domain.errors import Unauthenticated

COOKIE: Final = "__Host-unstick-flow"
LIVES: Final = timedelta(minutes=10)
_LONGEST: Final = 400
#: So many answers are remembered, so that none counts twice; beyond it none is taken for a while.
_MOST_USED: Final = 100_000
_REFUSED: Final = Unauthenticated("This signing in was not begun in this browser, or too long ago.", "Sign in again.")
_USED: Final = Unauthenticated("This answer was used already.", "Sign in again.")


@dataclass(frozen=True)
class Begun:
    """A signing in that has begun."""

    flow: Flow
    #: The value of its cookie.
    cookie: str


class Flows:
    """Begins signing in, and takes each answer once, in the browser that has begun it."""

    def __init__(self) -> None:
        """Make a key."""
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._used: OrderedDict[str, datetime] = OrderedDict()

    def begin(self, to: str, *, redirect_uri: str, now: datetime) -> Begun:
        """Begin; `to` is a page of ours to be led to afterwards, as `safe_next` has returned it."""
        state = secrets.token_urlsafe(32)
        said = f"{state}.{int(now.timestamp())}.{to}"
        return Begun(self._flow(state, redirect_uri), f"{self._made(said)}.{said}")

    def end(self, cookie: str, state: str, *, redirect_uri: str, now: datetime) -> tuple[Flow, str]:
        """Return what was begun and where it leads, once; Unauthenticated."""
        mac, _, said = cookie.partition(".")
        begun_with, at, to = [*said.split(".", 2), "", ""][:3]
        genuine = hmac.compare_digest(mac.encode(), self._made(said).encode())
        if not genuine or not hmac.compare_digest(begun_with.encode(), state.encode()):
            raise _REFUSED
        if not 0 <= now.timestamp() - int(at) <= LIVES.total_seconds():
            raise _REFUSED
        self._use_once(state, now=now)
        return self._flow(state, redirect_uri), to

    def _use_once(self, state: str, *, now: datetime) -> None:
        with self._lock:
            while self._used and next(iter(self._used.values())) < now - 2 * LIVES:
                self._used.popitem(last=False)
            if state in self._used or len(self._used) >= _MOST_USED:
                raise _USED
            self._used[state] = now

    def _flow(self, state: str, redirect_uri: str) -> Flow:
        return Flow(state, self._made(f"nonce {state}"), self._made(f"verifier {state}"), redirect_uri)

    def _made(self, text: str) -> str:
        made = hmac.new(self._key, text.encode(), sha256).digest()
        return urlsafe_b64encode(made).decode().rstrip("=")


def flow_cookie(headers: Headers) -> str:
    """Return the cookie of a signing in under way; empty without one, or with one that cannot be ours."""
    value = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    return value if value.isascii() and len(value) <= _LONGEST else ""


def give_flow(response: Response, cookie: str) -> None:
    """Put the cookie of a signing in into a browser. Lax: the provider leads back from another site, by a GET."""
    _set(response, cookie, lives=LIVES)


def take_flow(response: Response) -> None:
    """Take it away."""
    _set(response, "", lives=timedelta(0))


def _set(response: Response, value: str, *, lives: timedelta) -> None:
    seconds = int(lives.total_seconds())
    response.set_cookie(COOKIE, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")
