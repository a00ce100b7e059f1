"""How many requests one person and one address may send: who sends more waits, and keeps out nobody else.

Deliveries of alerts are not counted here: an Alertmanager does not send again after a 429, so `proving` bounds what
they take and answers 503. Nor are /healthz and /readyz, on which the life of the service may hang.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.app.service import Service
from service.domain.person import Person
from service.web import errors
from service.web.auth import is_open, is_webhook
from service.web.failed_sign_ins import WINDOW, FailedSignIns
from service.web.page_paths import is_page
from service.web.places import place_of
from service.web.sessions import Visit

_MOST_BUCKETS: Final = 10_000
_MOST_TOKENS: Final = 10_000
_PROBES: Final = frozenset({"/healthz", "/readyz"})


@dataclass(frozen=True)
class Rate:
    """So many requests a second over time, and so many at once."""

    per_second: float
    burst: int


@dataclass(frozen=True)
class Rates:
    """What a person may send with all his tokens and sessions, and what an address at which nobody is known."""

    person: Rate = Rate(100.0, 2000)
    address: Rate = Rate(20.0, 400)


def rates_of(per_second: float) -> Rates:
    """Return rates of so many requests a second for a person, and the rest in the same measure."""
    usual, factor = Rates(), per_second / Rates().person.per_second
    scaled = [Rate(one.per_second * factor, max(1, round(one.burst * factor))) for one in (usual.person, usual.address)]
    return Rates(*scaled)


class Buckets:
    """Counts requests in bounded memory: a bucket for each key, which fills again by itself."""

    def __init__(self, rate: Rate, *, now: Callable[[], float] = time.monotonic) -> None:
        """Begin with every bucket full."""
        self._rate = rate
        self._now = now
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one, and return 0; or return after how many seconds there is one again."""
        with self._lock:
            now = self._now()
            left, at = self._left.pop(key, (float(self._rate.burst), now))
            left = min(float(self._rate.burst), left + max(0.0, now - at) * self._rate.per_second)
            wait = 0.0 if left >= 1 else (1 - left) / self._rate.per_second
            self._left[key] = (left - 1 if wait == 0 else left, now)
            # The one that was used longest ago is the fullest.
            while len(self._left) > _MOST_BUCKETS:
                self._left.popitem(last=False)
            return wait


class RequestRates:
    """Refuses with 429 what a person or an unknown address asks beyond its rate. It stands behind who knows them."""

    def __init__(self, app: ASGIApp, *, rates: Rates, now: Callable[[], float] = time.monotonic) -> None:
        """Count what comes to this application."""
        self._app = app
        self._persons = Buckets(rates.person, now=now)
        self._addresses = Buckets(rates.address, now=now)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or say how long to wait."""
        if scope["type"] != "http" or is_webhook(scope) or scope["path"] in _PROBES:
            await self._app(scope, receive, send)
            return
        person = _person(scope)
        wait = self._addresses.take(_address(scope)) if person is None else self._persons.take(person.name)
        if wait == 0:
            await self._app(scope, receive, send)
            return
        await _too_many(scope, math.ceil(wait), receive=receive, send=send)


class TokenTries:
    """Refuses tokens from an address from which too many were wrong; one that was good lately is always let through."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        """Stand before who looks tokens up."""
        self._app = app
        self._service = service
        self._failed = FailedSignIns()
        self._good: OrderedDict[bytes, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and remember whether its token was good."""
        given = Headers(scope=scope).get("authorization") if scope["type"] == "http" else None
        if given is None or is_webhook(scope) or is_page(scope["path"]) or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        token, address = sha256(given.encode("utf-8", "surrogateescape")).digest(), _address(scope)
        known = token in self._good
        if not known and not self._failed.may_try(address, now=self._service.clock.now()):
            await _too_many(scope, int(WINDOW.total_seconds()), receive=receive, send=send)
            return

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                good = isinstance(scope.get("unstick.person"), Person)
                self._note(token, address, good=good, wrong=message["status"] == 401)
            await send(message)

        await self._app(scope, receive, noting)

    def _note(self, token: bytes, address: str, *, good: bool, wrong: bool) -> None:
        self._good.pop(token, None)
        if wrong:
            self._failed.count(address, now=self._service.clock.now())
        if good:
            self._good[token] = None
        while len(self._good) > _MOST_TOKENS:
            self._good.popitem(last=False)


async def _too_many(scope: Scope, seconds: int, *, receive: Receive, send: Send) -> None:
    problem = errors.http_problem(
        429, "More was asked than is answered at once.", way_out=f"Ask again in {seconds} s; nothing was done."
    )
    # The body was not read, so a next request cannot be told from it.
    headers = {"Retry-After": str(seconds), "Connection": "close"}
    await errors.answer(problem, headers=headers, scope=scope)(scope, receive, send)


def _person(scope: Scope) -> Person | None:
    person, visit = scope.get("unstick.person"), scope.get("unstick.visit")
    if isinstance(visit, Visit):
        return visit.person
    return person if isinstance(person, Person) else None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return place_of(str(client[0])) if client else ""
