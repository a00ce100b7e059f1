"""The page on which people sign in, with each way that there is."""

from collections.abc import Mapping

from fastapi import Request
from fastapi.responses import Response

from service.app.service import Service
from service.domain.errors import BrokenRule
from service.domain.login import Identity, VouchedBy
from service.web import rendering
from service.web.failed_sign_ins import FailedSignIns
from service.web.page_paths import SIGN_IN, safe_next


def door(
    service: Service,
    request: Request,
    *,
    to: str,
    out: str = "",
    refused: str = "",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the page; `out` says that somebody has just signed out, and how he had signed in."""
    config, identity = service.login.current(), identity_in(request)
    elsewhere = None
    if out == VouchedBy.OIDC and config.oidc is not None:
        elsewhere = service.provider.sign_out_address(config.oidc, back=f"{config.base_url}{SIGN_IN}")
    answer = rendering.page(
        "sign_in",
        visit=None,
        status=status,
        to=safe_next(to),
        refused=refused or str(request.scope.get("unstick.proxy_fault", "")),
        out=out != "",
        provider="" if config.oidc is None else config.oidc.name,
        elsewhere=elsewhere,
        proxied="" if identity is None else identity.person,
    )
    answer.headers.update(headers or {})
    return answer


def identity_in(request: Request) -> Identity | None:
    """Return for whom the proxy vouches, as the guard has found it."""
    identity = request.scope.get("unstick.identity")
    return identity if isinstance(identity, Identity) else None


def address_of(request: Request) -> str:
    """Return from where a request comes, for the record and for bounds."""
    return request.client.host if request.client else ""


def failed_in(request: Request) -> FailedSignIns:
    """Return the bound on failures; BrokenRule."""
    failed = request.app.state.failed_sign_ins
    if not isinstance(failed, FailedSignIns):
        raise BrokenRule("The application was made without a bound on failures.")
    return failed
