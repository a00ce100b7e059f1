"""Builds the HTTP application around a service."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version

from fastapi import APIRouter, FastAPI
from starlette.types import Lifespan

from service.app.service import Service
from service.web import errors, openapi, proving
from service.web.auth import Authentication, StillKnown, refuse_undeclared
from service.web.edge import Edge, HeadAsGet
from service.web.event_feed import EventFeed
from service.web.failed_sign_ins import FailedSignIns
from service.web.flows import Flows
from service.web.forwarded import ON_THIS_MACHINE, Forwarded
from service.web.intake import Intake
from service.web.limits import BodyLimits
from service.web.metrics import Metrics
from service.web.page_guard import PageGuard
from service.web.rates import Rates, RequestRates, TokenTries
from service.web.routes import (
    alerting_page,
    alerts,
    approvals,
    attempts,
    audit,
    docs,
    events,
    fleet_page,
    gates_page,
    health,
    imports,
    inventory,
    nodes,
    notices,
    override_page,
    pause,
    plans,
    policy,
    runbooks,
    runs,
    sign_in,
    sign_in_oidc,
    sweeps,
    webhooks,
)
from service.web.routes.health import ReadinessCheck
from service.web.taking import Share

_ROUTERS: tuple[APIRouter, ...] = (
    # First: routes are tried one after the other, and a storm of alerts asks for this one.
    webhooks.router,
    runs.router,
    imports.router,
    events.router,
    approvals.router,
    plans.router,
    runbooks.router,
    nodes.router,
    inventory.router,
    attempts.router,
    alerts.router,
    pause.router,
    policy.router,
    notices.router,
    sweeps.router,
    audit.router,
    health.router,
    docs.router,
    sign_in.router,
    sign_in_oidc.router,
    gates_page.router,
    override_page.router,
    alerting_page.router,
    fleet_page.router,
)


def create_app(
    service: Service,
    *,
    readiness: Sequence[ReadinessCheck] = (),
    event_feed: EventFeed | None = None,
    forwarders: str = ON_THIS_MACHINE,
    rates: Rates | None = None,
) -> FastAPI:
    """Return the application. Each readiness check returns why the service cannot work, or None.

    X-Forwarded-For and -Proto are believed from `forwarders`: addresses and networks, between commas.
    Streams of events stay open: start uvicorn with `timeout_graceful_shutdown`, or it waits for them to end.
    Raises BrokenRule when a route declares no permission.
    """
    metrics = Metrics(service)
    feed = event_feed or EventFeed(service.store)
    app = _bare(feed)
    app.state.service = service
    app.state.readiness = tuple(readiness)
    app.state.metrics = metrics
    app.state.event_feed = feed
    app.state.share = Share()
    app.state.intake = Intake(service)
    app.state.failed_sign_ins = FailedSignIns()
    app.state.flows = Flows()
    for router in _ROUTERS:
        # Each router has its whole path and its refusals: a route stands here as it was declared.
        app.router.routes.extend(router.routes)
    app.mount("/static", docs.Files(), name="static")
    errors.add_handlers(app)
    proving.add_handlers(app)
    _add_layers(app, service, metrics=metrics, rates=rates or Rates())
    app.add_middleware(Forwarded, proxies=forwarders)
    app.openapi = lambda: openapi.document(app)  # type: ignore[method-assign]
    refuse_undeclared(app.routes)
    return app


def _bare(feed: EventFeed) -> FastAPI:
    return FastAPI(
        title=openapi.TITLE,
        description=openapi.DESCRIPTION,
        version=_version(),
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_closing(feed),
    )


def _add_layers(app: FastAPI, service: Service, *, metrics: Metrics, rates: Rates) -> None:
    """Put around the routes what every request passes; the last one added is the outermost."""
    app.add_middleware(StillKnown, service=service)
    app.add_middleware(BodyLimits)
    app.add_middleware(RequestRates, rates=rates)
    app.add_middleware(Authentication, service=service)
    app.add_middleware(PageGuard, service=service)
    app.add_middleware(TokenTries, service=service)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Edge, service=service, metrics=metrics)


def _version() -> str:
    try:
        return version("unstick")
    except PackageNotFoundError:
        return "0"


def _closing(feed: EventFeed) -> Lifespan[FastAPI]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        feed.close()

    return lifespan
