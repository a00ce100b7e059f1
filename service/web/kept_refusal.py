"""Why signing in by a provider was refused, kept in the browser for one showing.

The provider leads back to an address with its code in it. Nobody stays there: the browser is led on to the door, and
the words come along in a cookie, since an address is seen by whoever looks over a shoulder, and is kept by the browser.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final

from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from service.web.page_paths import SIGN_IN

COOKIE: Final = "__Host-unstick-refused"
#: Seconds: the browser is led on at once.
_LIVES: Final = 60
#: Browsers take 4096 bytes of a cookie (RFC 6265, 6.1), and four of them stand for three of the text.
_LONGEST: Final = 2800


@dataclass(frozen=True)
class Refusal:
    """The words that are shown, and the status of their page."""

    words: str
    status: int


def lead_to_door(refusal: Refusal) -> Response:
    """Lead to the door, where the refusal is shown."""
    said = f"{refusal.status} {refusal.words}".encode()[:_LONGEST]
    answer = RedirectResponse(SIGN_IN, 303)
    _set(answer, urlsafe_b64encode(said).decode().rstrip("="), lives=_LIVES)
    return answer


def kept_refusal(headers: Headers) -> Refusal | None:
    """Return what a browser has kept; None without it, or with what cannot be ours."""
    value = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    try:
        said = urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode(errors="ignore")
    except ValueError:
        return None
    status, _, words = said.partition(" ")
    if status not in ("401", "404", "429", "503") or not words:
        return None
    return Refusal(words, int(status))


def drop_refusal(response: Response) -> None:
    """Take it away: it is shown once."""
    _set(response, "", lives=0)


def _set(response: Response, value: str, *, lives: int) -> None:
    # Lax: another site, the provider, has led to the address from which this one is led to.
    response.set_cookie(COOKIE, value, max_age=lives, path="/", secure=True, httponly=True, samesite="lax")
