"""The cookie of a session, and the token that a form of it carries."""

import hmac
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

from service.app.service import Service
from service.app.sessions import find_session
from service.domain.errors import Unauthenticated
from service.domain.person import Person
from service.domain.session import LONGEST, Session

#: A browser takes a cookie of this name only with Secure, with Path=/ and without Domain (RFC 6265bis, 4.1.3.2), so no
#: other host and no plain HTTP can put one there.
COOKIE: Final = "__Host-unstick"
_LONGEST_VALUE: Final = 100


@dataclass(frozen=True)
class Visit:
    """A request of somebody who has signed in."""

    session: Session
    #: What each form of this session must carry.
    form_token: str

    @property
    def person(self) -> Person:
        """Return who asks."""
        return self.session.person


def visit_of(service: Service, headers: Headers) -> Visit:
    """Return the visit that a cookie tells of; Unauthenticated, with why a session has ended."""
    secret = secret_of(headers)
    if not secret:
        raise Unauthenticated("You are not signed in.", "Sign in.")
    return Visit(find_session(service, secret), form_token(secret))


def secret_of(headers: Headers) -> str:
    """Return the value of the cookie; empty without one, or with one that cannot be ours."""
    value = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    return value if value.isascii() and len(value) <= _LONGEST_VALUE else ""


def form_token(secret: str) -> str:
    """Return what forms of a session carry: another site can neither read nor compute it."""
    return hmac.new(secret.encode(), b"unstick form", sha256).hexdigest()


def give(response: Response, secret: str) -> None:
    """Put the cookie into a browser.

    Lax and not Strict: the link in a notice is opened from a chat, and with Strict that first request would come
    without the cookie, so that everybody would sign in at each link. A foreign site's POST has it in neither case.
    """
    _set(response, secret, lives=LONGEST)


def take(response: Response) -> None:
    """Take the cookie away."""
    _set(response, "", lives=timedelta(0))


def _set(response: Response, value: str, *, lives: timedelta) -> None:
    seconds = int(lives.total_seconds())
    response.set_cookie(COOKIE, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")
