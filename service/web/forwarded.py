"""Whose connection a request came by, and from whom: a proxy that is configured says the second, and nobody else."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from service.domain.errors import ConfigInvalid

#: The proxies that are believed when none are named: those on this machine.
ON_THIS_MACHINE: Final = "127.0.0.1,::1"
#: Where the other end of the connection itself stands in the scope, as an address.
PEER: Final = "unstick.peer"


class Forwarded:
    """Notes the other end of the connection, then believes X-Forwarded-For and X-Forwarded-Proto of known proxies."""

    def __init__(self, app: ASGIApp, *, proxies: str = ON_THIS_MACHINE) -> None:
        """Take addresses and networks, between commas; ConfigInvalid for `*`, with which anybody is believed."""
        if "*" in proxies:
            raise ConfigInvalid("FORWARDED_ALLOW_IPS is `*`, so anybody would be believed.", "Name your proxies in it.")
        # The types of uvicorn and Starlette for one and the same protocol differ.
        self._app: ASGIApp = ProxyHeadersMiddleware(app, proxies)  # type: ignore[arg-type, assignment]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with both written down."""
        client = scope.get("client")
        scope[PEER] = client[0] if client else ""
        await self._app(scope, receive, send)
