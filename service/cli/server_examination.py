"""What `unstick doctor --server` sees of a running service from outside, through whatever stands before it.

What could not be looked at is told as such, and is not good.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from http.cookies import CookieError, SimpleCookie
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from service.cli.bounded_asking import Asking
from service.cli.seen import Seen, noted
from service.client import LOOPBACK
from service.web.edge import HEADERS
from service.web.page_paths import SIGN_IN
from service.web.sessions import COOKIE, form_token

#: Answers that are there for everybody, and what they must be.
_OPEN: Final = {"/healthz": "application/json", "/docs": "text/html", SIGN_IN: "text/html"}
#: What nobody without a token may read.
_CLOSED: Final = ("/api/v1/runs", "/metrics")
#: What people set for the time being and forget; fewer than the wrong ones that a minute allows.
_GUESSES: Final = ("unstick", "admin", "changeme")
_POLICY: Final = "Content-Security-Policy"
_REFERRER: Final = "Referrer-Policy"
#: A page may be kept by a browser, has a policy of its own, and tells its own host from where a form comes.
_FREE: Final = frozenset({_POLICY, _REFERRER, "Cache-Control"})
#: The `Date` of an answer has no fractions, and the answer its way; beyond this a clock is wrong.
_SKEW: Final = timedelta(seconds=30)
_ELSEWHERE: Final = "https://elsewhere.example"
#: Of what a server says, so much is told (characters).
_MOST_TOLD: Final = 600


def look_at_server(url: str, token: str, *, now: datetime) -> Iterator[Seen]:
    """Look at a running service, with the token of a person who may read, or without one (an empty text).

    With a token it signs in to the pages and out again, which the record has; nothing else is changed.
    """
    for one in _look(url, token, now):
        # In one line: a server that is not ours must not write lines that look like those of doctor.
        yield replace(one, text=_in_one_line(one.text))


def _look(url: str, token: str, now: datetime) -> Iterator[Seen]:
    parts = urlsplit(url)
    local = parts.hostname in LOOPBACK
    with Asking(url, local=local) as http:
        try:
            first = http.get("/healthz")
            yield from _transport(first, url, local=local)
            if not _is_ours(first):
                way_out = "Is the address right, at the top of its host, and does a proxy before it pass all paths?"
                said = f"{url}/healthz answers {first.status_code}, and not as unstick does; nothing else was asked."
                yield Seen(False, said, way_out)
                return
            yield Seen(True, f"{url} answers")
            yield from _clock(first, now)
            yield from _ready(http.get("/readyz"))
            yield from _version(http.get("/openapi.json"))
            yield from _headers(http)
            yield from _closed(http)
            yield from _with_token(http, token, safe=local or parts.scheme == "https")
        except httpx.RequestError as error:
            said = f"{url} does not answer: {error or type(error).__name__}. What is not named above was not looked at."
            yield Seen(False, said, "Is it started (`unstick serve`), and is the address right, with its certificate?")


def _transport(answer: httpx.Response, url: str, *, local: bool) -> Iterator[Seen]:
    if answer.url.scheme == "https":
        yield Seen(True, "It is reached over TLS, with a certificate that this machine believes")
        if "Strict-Transport-Security" not in answer.headers:
            yield noted("Whoever ends TLS sends no Strict-Transport-Security, so a browser may ask without TLS first")
    elif local:
        yield Seen(True, "It is reached without TLS, on this machine alone")
    else:
        way_out = "Put a proxy before it that ends TLS, and ask for https: docs/operations.md"
        yield Seen(False, f"{url} is reached without TLS: who is on the way reads tokens.", way_out)


def _is_ours(answer: httpx.Response) -> bool:
    return answer.status_code == 200 and _json(answer) == {"alive": True}


def _clock(answer: httpx.Response, now: datetime) -> Iterator[Seen]:
    try:
        ahead = parsedate_to_datetime(answer.headers.get("Date", "")) - now
    except (ValueError, TypeError):
        yield Seen(False, "Its answers have no Date, so the clocks were not compared.", "Let the proxy pass it.")
        return
    # The answer was given between our asking and its arrival.
    if -_SKEW <= ahead <= answer.elapsed + _SKEW:
        yield Seen(True, "Its clock and that of this machine agree, by the Date of its answers")
        return
    said = (
        f"Its clock is {abs(ahead).total_seconds():.0f} s {'ahead of' if ahead > timedelta(0) else 'behind'} this one."
    )
    yield Seen(False, said, "Set whichever is wrong (timedatectl): gates and tokens end by the service's.")


def _ready(answer: httpx.Response) -> Iterator[Seen]:
    said = _json(answer)
    if answer.status_code == 200 and said.get("ready") is True:
        yield Seen(True, "It is ready: its store can be written and its engine lives")
        return
    reasons = said.get("reasons")
    why = " ".join(map(str, reasons)) if isinstance(reasons, list) and reasons else f"it answers {answer.status_code}."
    yield Seen(False, f"It is not ready: {why}", "`unstick doctor` on its host says how to mend it.")


def _version(answer: httpx.Response) -> Iterator[Seen]:
    info = _json(answer).get("info")
    there = info.get("version") if isinstance(info, dict) else None
    here = version("unstick")
    if not there:
        yield Seen(False, "/openapi.json cannot be read, so its version is not known.", "Let the proxy pass it.")
    elif there == here:
        yield Seen(True, f"It is of the version of this program, {here}")
    else:
        yield Seen(False, f"It is of version {there}, and this program of {here}.", "Bring the older one up.")


def _headers(http: Asking) -> Iterator[Seen]:
    """Look whether the headers of the house come through on what is open to everybody, and no more cookies."""
    bad = False
    for path, kind in _OPEN.items():
        answer = http.get(path, headers={"Accept": kind, "Origin": _ELSEWHERE})
        if answer.status_code != 200 or not answer.headers.get("Content-Type", "").startswith(kind):
            bad = True
            yield Seen(False, f"{path} answers {answer.status_code} and could not be looked at.", "Is it let through?")
            continue
        for fault in _faults(answer.headers):
            bad = True
            way_out = "Let the proxy pass on the headers of the service as they are."
            yield Seen(False, f"{path} comes {fault}", way_out)
    if not bad:
        yield Seen(True, f"{', '.join(_OPEN)} answer, with every header that keeps others out, and let no origin in")


def _faults(headers: httpx.Headers) -> Iterator[str]:
    policies = headers.get_list(_POLICY)
    if not policies or not policies[0].startswith("default-src 'none'") or "unsafe-" in policies[0]:
        yield f"with no policy of ours for what may run ({_POLICY})."
    for name, wanted in HEADERS.items():
        if name not in _FREE and headers.get(name) != wanted:
            yield f"without `{name}: {wanted}`."
    if headers.get(_REFERRER) not in ("no-referrer", "same-origin"):
        yield f"without a {_REFERRER} that keeps addresses from other hosts."
    if "Access-Control-Allow-Origin" in headers:
        yield f"with leave for other origins (Access-Control-Allow-Origin: {headers['Access-Control-Allow-Origin']})."


def _closed(http: Asking) -> Iterator[Seen]:
    """Look whether nobody is let in without a token, nor with one that everybody would guess."""
    way_out = "Take it off the network, and look who has put what before the service."
    asked: list[tuple[str, str, dict[str, str]]] = [(path, "without a token", {}) for path in _CLOSED]
    asked += [(_CLOSED[0], f"with the token `{word}`", {"Authorization": f"Bearer {word}"}) for word in _GUESSES]
    bad = False
    for path, how, headers in asked:
        status = http.get(path, headers=headers).status_code
        if status == 200:
            bad = True
            yield Seen(False, f"{path} is given to whoever comes {how}.", way_out)
        elif status != 401:
            bad = True
            said = f"{path} answers {status} {how}, so whether it is closed is not known."
            yield Seen(False, said, "Wait a minute if it is 429; else look what stands before the service.")
    if not bad:
        yield Seen(True, f"{' and '.join(_CLOSED)} are closed to whoever comes without a token, or with a guessed one")


def _with_token(http: Asking, token: str, *, safe: bool) -> Iterator[Seen]:
    not_seen = "Whether it knows a token, and how its cookie is kept, was not looked at"
    if not token:
        yield Seen(False, f"{not_seen}: UNSTICK_TOKEN is not set.", "Set it to a token that may read.")
        return
    if not safe:
        yield Seen(False, f"{not_seen}: no token is sent where others could read it.", "Ask for https.")
        return
    answer = http.get(_CLOSED[0], params={"limit": 1}, headers={"Authorization": f"Bearer {token}"})
    if answer.status_code != 200:
        said = _json(answer).get("detail") or f"it answers {answer.status_code}."
        yield Seen(False, f"The API does not answer the token in UNSTICK_TOKEN: {said}", "Set another that may read.")
        return
    yield Seen(True, "The API answers the token in UNSTICK_TOKEN")
    yield from _cookie(http, token)


def _cookie(http: Asking, token: str) -> Iterator[Seen]:
    """Sign in, look at the cookie, and sign out."""
    own = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
    answer = http.post(SIGN_IN, data={"token": token}, headers=own)
    found = _read_cookie(answer)
    if answer.status_code != 303 or found is None:
        said = f"Signing in answers {answer.status_code} without the cookie {COOKIE}, so its flags were not looked at."
        yield Seen(False, said, "Sign in with a browser, which says why.")
        return
    secret, flags = found
    http.forget_cookies()
    session = {"Cookie": f"{COOKIE}={secret}"}
    out = http.post("/sign-out", data={"form_token": form_token(secret)}, headers={**own, **session})
    lacks = [name for name, right in flags.items() if not right]
    if lacks:
        way_out = "Let the proxy pass on Set-Cookie as it is."
        yield Seen(False, f"The cookie of a session comes without {', '.join(lacks)}.", way_out)
    else:
        yield Seen(
            True, f"The cookie of a session is kept from scripts, other hosts and plain HTTP ({', '.join(flags)})"
        )
    if out.status_code != 303:
        yield noted(f"Signing out answers {out.status_code}; the session of this look ends by itself within an hour")


def _read_cookie(answer: httpx.Response) -> tuple[str, Mapping[str, bool]] | None:
    """Return the value of the cookie of a session, and for each flag whether it has it."""
    for line in answer.headers.get_list("Set-Cookie"):
        try:
            cookie = SimpleCookie(line).get(COOKIE)
        except CookieError:
            continue
        if cookie is not None and cookie.value:
            flags = {
                "Secure": bool(cookie["secure"]),
                "HttpOnly": bool(cookie["httponly"]),
                "SameSite": cookie["samesite"].lower() in ("lax", "strict"),
                "Path=/": cookie["path"] == "/",
                "no Domain": not cookie["domain"],
            }
            return cookie.value, flags
    return None


def _json(answer: httpx.Response) -> dict[str, Any]:
    """Return what an answer says; nothing where it is no object of JSON."""
    try:
        said = answer.json()
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _in_one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_TOLD else f"{line[:_MOST_TOLD]}..."
