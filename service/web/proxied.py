"""Whom a proxy before the service has signed in, by the headers that it sets; config/login.yaml says which proxy.

Two things prove that a header is the proxy's, and each alone is not enough. The connection comes from its machine, as
the socket says it and no header: but so does that of any other program there. And it carries a secret: but whoever has
once read that could use it from anywhere. What does not have both is as if the headers were not there.
"""

import hmac
from ipaddress import IPv6Address, ip_address

import structlog
from starlette.datastructures import Headers
from starlette.types import Scope

from service.app.secret_line import read_secret_line
from service.app.service import Service
from service.domain.errors import Unauthenticated
from service.domain.login import Identity, ProxyConfig, VouchedBy
from service.web.forwarded import PEER

_log = structlog.get_logger(__name__)
_TWICE = Unauthenticated(
    "The proxy before this service has sent a header twice.", "Let it replace the headers that came with the request."
)
_UNREADABLE = Unauthenticated("The name from the proxy before this service cannot be read.", "Look at what it sends.")


def identity_of(service: Service, scope: Scope) -> Identity | None:
    """Return for whom the proxy vouches, None when it does for nobody; Unauthenticated when it cannot be understood.

    Raises ConfigInvalid when the secret cannot be read.
    """
    config = service.login.current().proxy
    headers = Headers(scope=scope)
    if config is None or config.header not in headers:
        return None
    if not _comes_from(config, scope.get(PEER, "")) or not _has_secret(config, headers):
        _log.warning("proxy.not_believed", peer=scope.get(PEER, ""))
        return None
    name = _text(headers, config.header)
    if not name:
        return None
    groups = _text(headers, config.groups_header) if config.groups_header else ""
    named = frozenset(group.strip() for group in groups.split(",") if group.strip())
    return Identity(VouchedBy.PROXY, "", "", name, named)


def _comes_from(config: ProxyConfig, peer: str) -> bool:
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in config.networks)


def _has_secret(config: ProxyConfig, headers: Headers) -> bool:
    given = headers.getlist(config.secret_header)
    secret = read_secret_line(config.secret_file).encode()
    return len(given) == 1 and hmac.compare_digest(given[0].encode("latin-1"), secret)


def _text(headers: Headers, name: str) -> str:
    given = headers.getlist(name)
    if len(given) > 1:
        raise _TWICE
    try:
        return given[0].encode("latin-1").decode().strip() if given else ""
    except UnicodeDecodeError as error:
        raise _UNREADABLE from error
