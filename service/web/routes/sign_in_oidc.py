"""Sign in to the pages by a provider: to it, and back."""

import re
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from service.app.service import Service
from service.app.sessions import Opened, open_identity
from service.domain.errors import BrokenRule, ConfigInvalid, NotFound, ProviderSilent, Unauthenticated, UnstickError
from service.domain.login import LoginConfig, OidcConfig
from service.web.door import address_of, door, failed_in
from service.web.failed_sign_ins import WINDOW
from service.web.flows import Flows, flow_cookie, give_flow, take_flow
from service.web.kept_refusal import Refusal, lead_to_door
from service.web.page_paths import OIDC, OIDC_BACK, safe_next
from service.web.routes.common import Serving, operation_id
from service.web.sessions import give, secret_of

router = APIRouter(generate_unique_id_function=operation_id, include_in_schema=False)
_log = structlog.get_logger(__name__)
_ERROR: Final = re.compile(r"[a-z_]{1,40}")
_LONGEST: Final = 4096


@router.get(OIDC)
def begin_oidc(service: Serving, request: Request, to: Annotated[str, Query(alias="next")] = "") -> Response:
    """Send a browser to the provider. It is a link and no form: a form may lead to pages of ours alone (CSP)."""
    config = service.login.current()
    try:
        oidc = _oidc(config)
        begun = _flows(request).begin(safe_next(to), redirect_uri=_back(config), now=service.clock.now())
        answer = RedirectResponse(service.provider.address(oidc, begun.flow), 303)
    except (NotFound, ProviderSilent, ConfigInvalid) as error:
        refusal = _refusal(request, error)
        return door(service, request, to=to, refused=refusal.words, status=refusal.status)
    give_flow(answer, begun.cookie)
    return answer


@router.get(OIDC_BACK)
def end_oidc(service: Serving, request: Request) -> Response:
    """Open a session for whom the provider vouches; lead on to where he wanted to go, or to the door with why not."""
    address, now, failed = address_of(request), service.clock.now(), failed_in(request)
    if not failed.may_try(address, now=now):
        seconds = int(WINDOW.total_seconds())
        words = f"Signing in has failed too often from your address. Wait {seconds} seconds, then try once more."
        return lead_to_door(Refusal(words, 429))
    try:
        opened, to = _opened(service, request, address=address)
    except (Unauthenticated, NotFound, ProviderSilent, ConfigInvalid) as error:
        if isinstance(error, Unauthenticated):
            failed.count(address, now=now)
        answer = lead_to_door(_refusal(request, error))
        take_flow(answer)
        return answer
    led = RedirectResponse(safe_next(to), 303)
    give(led, opened.secret)
    take_flow(led)
    return led


def _opened(service: Service, request: Request, *, address: str) -> tuple[Opened, str]:
    """Return a session, and where to go; what was begun in this browser is looked for before anything is believed."""
    config, now = service.login.current(), service.clock.now()
    oidc, given = _oidc(config), _given(request)
    cookie = flow_cookie(request.headers)
    flow, to = _flows(request).end(cookie, given.get("state", ""), redirect_uri=_back(config), now=now)
    error = given.get("error")
    if error is not None:
        shown = error if _ERROR.fullmatch(error) else "it does not say why"
        raise Unauthenticated(f"{oidc.name} has not signed you in ({shown}).", "Sign in again, or with a token.")
    code = given.get("code", "")
    identity = service.provider.identify(oidc, flow, code=code, issuer=given.get("iss"), now=now)
    return open_identity(service, identity, address=address, before=secret_of(request.headers)), to


def _given(request: Request) -> dict[str, str]:
    """Return what came with the address, each once; Unauthenticated."""
    pairs = request.query_params.multi_items()
    given = dict(pairs)
    if len(given) != len(pairs) or any(len(value) > _LONGEST for value in given.values()):
        raise Unauthenticated("The provider's answer cannot be read.", "Sign in again.")
    return given


def _refusal(request: Request, error: UnstickError) -> Refusal:
    """Say why nobody was signed in; what is wrong with our own files is for the log."""
    _log.warning("sign_in.refused", address=address_of(request), reason=error.reason)
    if isinstance(error, ConfigInvalid):
        return Refusal("Signing in so is set up wrongly here. The log of the service says how; a token works.", 503)
    return Refusal(str(error), error.status)


def _oidc(config: LoginConfig) -> OidcConfig:
    if config.oidc is None:
        raise NotFound("Nobody signs in by a provider here.", "Sign in with a token.")
    return config.oidc


def _back(config: LoginConfig) -> str:
    """Return where the provider sends the browser: as it is configured, and not as the request was addressed."""
    return f"{config.base_url}{OIDC_BACK}"


def _flows(request: Request) -> Flows:
    flows = request.app.state.flows
    if not isinstance(flows, Flows):
        raise BrokenRule("The application was made without a way to sign in by a provider.")
    return flows
