"""Tells programs: JSON, signed as Standard Webhooks say, to one address and no further.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from service.app.notice_ports import Outgoing
from service.app.secret_line import read_line
from service.app.web_addresses import LOOPBACK, check_url
from service.domain.errors import ConfigInvalid, NotTold
from service.domain.notice import Receiver
from service.domain.standard_webhooks import HOW_TO_MAKE_ONE, UNUSABLE, key_of, signature

#: Each wait for the receiver takes at most so long (seconds).
PATIENCE: Final = 10.0
_CONNECT: Final = 5.0
#: The receiver wants nothing more (RFC 9110, 15.5.11; so it is in the specification of Standard Webhooks).
_GONE: Final = 410


class WebhookSender:
    """Sends signed JSON. An answer's body is not read, and a redirect is not followed."""

    def __init__(self, *, patience: float = PATIENCE) -> None:
        """Wait at most so many seconds for each packet."""
        self._patience = patience

    def check(self, receiver: Receiver) -> None:
        """Return when address and secrets can be used; ConfigInvalid."""
        _url(receiver)
        _keys(receiver)

    def tell(self, receiver: Receiver, outgoing: Outgoing, *, now: datetime) -> None:
        """Return when the receiver has answered 2xx; NotTold says why not."""
        try:
            url, keys = _url(receiver), _keys(receiver)
        except ConfigInvalid as error:
            raise NotTold(error.reason, error.way_out) from error
        content = body(outgoing, now=now)
        status = self._post(url, content, headers(outgoing.id, content, keys=keys, now=now))
        if status == _GONE:
            raise NotTold("It answered 410: it wants nothing more.", final=True)
        if not 200 <= status < 300:
            raise NotTold(f"It answered {status}{', and no redirect is followed' if 300 <= status < 400 else ''}.")

    def _post(self, url: str, content: bytes, given: Mapping[str, str]) -> int:
        timeout = httpx.Timeout(self._patience, connect=min(_CONNECT, self._patience))
        # A proxy of the surroundings is not asked for what is on this machine.
        surroundings = urlsplit(url).hostname not in LOOPBACK
        try:
            with (
                httpx.Client(timeout=timeout, follow_redirects=False, trust_env=surroundings) as client,
                client.stream("POST", url, content=content, headers=dict(given)) as answer,
            ):
                return answer.status_code
        except httpx.ConnectError as error:
            raise NotTold(f"It cannot be reached ({_cause(error)}).") from error
        except httpx.TimeoutException as error:
            raise NotTold(f"It did not answer within {self._patience:g} seconds.") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise NotTold(f"The connection broke ({type(error).__name__}).") from error


def body(outgoing: Outgoing, *, now: datetime) -> bytes:
    """Return what is sent: `type`, `timestamp` and `data`, as the specification recommends."""
    message = outgoing.message
    notice: Mapping[str, Any] = message.notices[0] if message.notices else {}
    kind = f"notice.{message.kind.value}" if message.notices else "notice.trial"
    data = {**notice, "message": {"title": message.title, "text": message.text}, "link": message.link}
    value = {"type": kind, "timestamp": notice.get("at", now.isoformat()), "data": data}
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def headers(name: str, content: bytes, *, keys: tuple[bytes, ...], now: datetime) -> dict[str, str]:
    """Return the headers by which a receiver knows who has sent it, and whether it came before."""
    seconds = str(int(now.timestamp()))
    signed = [signature(key, message=name.encode(), timestamp=seconds.encode(), body=content) for key in keys]
    return {
        "content-type": "application/json",
        "user-agent": "unstick",
        "webhook-id": name,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{one.decode()}" for one in signed),
    }


def _url(receiver: Receiver) -> str:
    url = receiver.url or read_line(receiver.url_file)
    check_url(url, what=f"The address of {receiver.name}")
    return url


def _keys(receiver: Receiver) -> tuple[bytes, ...]:
    keys = []
    for file in receiver.secret_files:
        key = key_of(read_line(file))
        if key is None:
            raise ConfigInvalid(f"{file}: {UNUSABLE}", HOW_TO_MAKE_ONE)
        keys.append(key)
    return tuple(keys)


def _cause(error: BaseException) -> str:
    known: BaseException | None = error
    while known is not None:
        if isinstance(known, OSError) and known.strerror:
            return known.strerror
        known = known.__cause__ or known.__context__
    return type(error).__name__
