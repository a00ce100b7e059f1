"""Who may do what, and that nothing is open by mistake."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from service.app.tokens import create_token, revoke_token
from service.domain.errors import BrokenRule
from service.domain.person import Permission, Role
from service.web.app import create_app
from service.web.auth import Needs, permissions, refuse_undeclared
from tests.support.world import SteppedClock, World
from tests.web.api import CURE, Api, problem

OPEN = {
    "/",
    "/healthz",
    "/readyz",
    "/docs",
    "/openapi.json",
    "/static",
    "/sign-in",
    "/sign-in/oidc",
    "/sign-in/oidc/back",
}
DIGEST = "0" * 64
HOLD = {"reason": "the vendor looks at it"}
#: Every address with a method, a body, and the roles that may use it. 404 and 409 mean: let in.
READERS = {Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN, Role.BREAK_GLASS}
DECIDERS = {Role.OPERATOR, Role.APPROVER}
ROUTES: list[tuple[str, str, object, set[Role]]] = [
    ("POST", "/api/v1/runs", CURE, {Role.OPERATOR}),
    ("POST", "/api/v1/imports", {"journal": "x"}, {Role.OPERATOR}),
    ("GET", "/api/v1/runs", None, READERS),
    ("GET", "/api/v1/runs/{run_id}", None, READERS),
    ("GET", "/api/v1/runs/{run_id}/plan", None, READERS),
    ("GET", "/api/v1/runs/{run_id}/events", None, READERS),
    ("POST", "/api/v1/runs/{run_id}/cancel", {}, {Role.OPERATOR}),
    ("POST", "/api/v1/runs/{run_id}/retry", {}, {Role.OPERATOR}),
    ("POST", "/api/v1/runs/{run_id}/nodes/{node}/resolve", {"as": "failed", "reason": "x"}, {Role.OPERATOR}),
    ("GET", "/api/v1/approvals", None, READERS),
    ("GET", "/api/v1/approvals/{gate_id}", None, READERS),
    ("POST", "/api/v1/approvals/{gate_id}/approve", {"digest": DIGEST}, DECIDERS),
    ("POST", "/api/v1/approvals/{gate_id}/deny", {"digest": DIGEST, "reason": "x"}, DECIDERS),
    ("POST", "/api/v1/approvals/{gate_id}/override", {"digest": DIGEST, "reason": "x"}, {Role.BREAK_GLASS}),
    (
        "POST",
        "/api/v1/approvals/decide",
        {"decisions": [{"id": "x", "digest": DIGEST, "answer": "approve"}]},
        DECIDERS,
    ),
    ("POST", "/api/v1/plans", CURE, READERS),
    ("GET", "/api/v1/runbooks", None, READERS),
    ("GET", "/api/v1/runbooks/{name}", None, READERS),
    ("GET", "/api/v1/inventory", None, READERS),
    ("GET", "/api/v1/nodes", None, READERS),
    ("GET", "/api/v1/nodes/{node}", None, READERS),
    ("GET", "/api/v1/nodes/{node}/survey", None, READERS),
    ("POST", "/api/v1/nodes/{node}/hold", HOLD, {Role.OPERATOR}),
    ("POST", "/api/v1/nodes/{node}/release", {}, {Role.OPERATOR}),
    ("GET", "/api/v1/attempts/{attempt_id}/output", None, READERS),
    ("GET", "/api/v1/alerts", None, READERS),
    ("GET", "/api/v1/alerts/{alert_id}", None, READERS),
    ("POST", "/api/v1/alerts/{alert_id}/replay", {}, {Role.OPERATOR}),
    ("GET", "/api/v1/pause", None, READERS),
    ("POST", "/api/v1/pause", {"reason": "x"}, {Role.ADMIN}),
    ("POST", "/api/v1/resume", {"reason": "x"}, {Role.ADMIN}),
    ("POST", "/api/v1/breakers/{breaker}/reset", {"reason": "x"}, {Role.ADMIN}),
    ("GET", "/api/v1/deliveries/{delivery_id}", None, READERS),
    ("GET", "/api/v1/notices", None, READERS),
    ("GET", "/api/v1/sweeps", None, READERS),
    ("POST", "/api/v1/sweeps/{sweep}/run", {}, {Role.OPERATOR}),
    ("GET", "/api/v1/fleet", None, READERS),
    ("GET", "/api/v1/policy/explain", None, READERS),
    ("GET", "/api/v1/audit", None, READERS),
    ("GET", "/api/v1/audit/timeline", None, READERS),
    ("GET", "/metrics", None, READERS),
]
#: No person's token opens these: the sender proves to be the source (test_webhooks.py).
PROVEN = {("POST", "/webhooks/{source}")}
#: No token opens these: a browser comes with a session (test_pages.py).
PAGES = {
    ("POST", "/sign-out"),
    ("GET", "/fleet"),
    ("GET", "/gates"),
    ("GET", "/gates/{gate_id}"),
    ("POST", "/gates/{gate_id}/answer"),
    ("POST", "/gates/{gate_id}/override"),
    ("POST", "/alerting/pause"),
    ("POST", "/alerting/resume"),
    ("POST", "/alerting/reset"),
}
FILLED = {
    "breaker": "blast-radius",
    "alert_id": "none",
    "delivery_id": "none",
    "run_id": "none",
    "gate_id": "none",
    "attempt_id": "none",
    "node": "gpu-01",
    "name": "node-facts",
    "sweep": "none",
}


def ask(api: Api, method: str, path: str, body: object, *, role: Role | None) -> httpx.Response:
    return api.ask(method, path.format_map(FILLED), role=role, json=body)


def test_s01_every_route_declares_one_permission_or_is_known_to_be_open(world: World) -> None:
    app = create_app(world.service)

    undeclared = {
        getattr(route, "path", "?")
        for route in app.routes
        if not (isinstance(route, APIRoute) and len(permissions(route)) == 1)
    }

    assert undeclared == OPEN


def test_the_table_of_this_test_knows_every_route(world: World) -> None:
    app = create_app(world.service)

    declared = {
        (method, route.path)
        for route in app.routes
        if isinstance(route, APIRoute) and permissions(route)
        for method in route.methods or ()
    }

    assert declared == {(method, path) for method, path, _, _ in ROUTES} | PROVEN | PAGES


@pytest.mark.parametrize("role", [*Role, None])
def test_no_person_delivers_alerts(api: Api, role: Role | None) -> None:
    answers = [api.ask("POST", f"/webhooks/{name}", role=role, content=b"{}") for name in ("prom", "none")]

    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}


@pytest.mark.parametrize("path", ["/webhooks/", "/webhooks", "/webhooks/a/b", "/webhooks/prom/", "/webhooks/a%2Fb"])
def test_what_lies_beside_the_address_of_a_source_is_not_open(api: Api, path: str) -> None:
    assert api.ask("POST", path, role=None, content=b"{}").status_code == 401


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_only_a_delivery_is_let_in_without_a_token(api: Api, method: str) -> None:
    assert api.ask(method, "/webhooks/prom", role=None).status_code == 401


def test_an_application_with_a_route_that_declares_nothing_is_not_built() -> None:
    router = APIRouter()

    @router.get("/api/v1/secrets")
    def secrets() -> None:
        """Say nothing."""

    with pytest.raises(BrokenRule, match="/api/v1/secrets declares no permission"):
        refuse_undeclared(router.routes)


@pytest.mark.parametrize("route", [Route("/api/v1/x", lambda request: None), Mount("/files", FastAPI())])
def test_a_plain_route_is_refused_outside_what_is_open(route: Route | Mount) -> None:
    with pytest.raises(BrokenRule):
        refuse_undeclared([route])


@pytest.mark.parametrize(
    ("method", "path", "body", "allowed"), ROUTES, ids=[f"{method} {path}" for method, path, _body, _allowed in ROUTES]
)
def test_s03_each_role_is_let_in_where_it_belongs_and_nowhere_else(
    api: Api, method: str, path: str, body: object, allowed: set[Role]
) -> None:
    let_in = {role for role in Role if ask(api, method, path, body, role=role).status_code != 403}

    assert let_in == allowed
    assert problem(ask(api, method, path, body, role=None))[:2] == (401, "unauthenticated")


def test_a_refusal_names_the_person_and_the_way_out(api: Api) -> None:
    answer = api.post("/runs", CURE, role=Role.VIEWER)

    assert answer.json() == {
        "type": "urn:unstick:problem:forbidden",
        "title": "This person may not do that.",
        "status": 403,
        "detail": "viewer's token has the role viewer, which may not request.",
        "way_out": "It takes the role operator. On the service's host: "
        "unstick token create --name NAME --person viewer --role operator",
        "code": "forbidden",
    }


def test_a_refusal_names_every_role_that_is_had_and_every_one_that_would_do(api: Api, world: World) -> None:
    both = create_token(world.service, "o", roles=frozenset({Role.SOURCE, Role.ADMIN}), person="o x", by="t")
    bearer = {"Authorization": f"Bearer {both}"}

    deciding = api.post("/approvals/none/approve", {"digest": DIGEST}, role=None, headers=bearer)
    reading = api.get("/runs", role=Role.SOURCE)

    assert deciding.json()["detail"] == "o x's token has the roles admin, source, which may not decide."
    assert deciding.json()["way_out"].startswith("It takes the role operator or approver. On the service's host: ")
    assert deciding.json()["way_out"].endswith("--person 'o x' --role operator")
    assert reading.json()["detail"] == "source's token has the role source, which may not read."
    assert reading.json()["way_out"].startswith("It takes the role viewer, operator, approver, admin or break-glass. ")


def test_s13_a_token_that_is_revoked_while_the_body_comes_does_nothing(api: Api, world: World) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        revoke_token(world.service, Role.OPERATOR, by="admin")
        yield json.dumps(CURE).encode()

    kind = {"Content-Type": "application/json"}
    answer = api.ask("POST", "/api/v1/runs", role=Role.OPERATOR, headers=kind, content=slowly())

    assert problem(answer)[:2] == (401, "unauthenticated")
    assert api.get("/runs").json()["items"] == []


def test_everybody_who_is_not_known_gets_the_same_answer(api: Api, world: World, clock: SteppedClock) -> None:
    reader = frozenset({Role.VIEWER})
    expired = create_token(
        world.service, "old", roles=reader, person="p", by="t", expires=clock.now() + timedelta(hours=1)
    )
    clock.at += timedelta(hours=1)
    revoked = create_token(world.service, "gone", roles=reader, person="p", by="t")
    revoke_token(world.service, "gone", by="t")
    good = api.tokens[Role.VIEWER]
    headers = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {good}"},
        {"Authorization": good},
        {"Authorization": "Bearer unstick_wrong"},
        {"Authorization": f"Bearer {good[:-1]}"},
        {"Authorization": f"Bearer {good}{'x' * 5000}"},
        {"Authorization": f"Bearer {expired}"},
        {"Authorization": f"Bearer {revoked}"},
        {"Authorization": "Bearer \xff"},
    ]

    answers = []
    for one in headers:
        # Slower than who guesses tokens, and is told to wait.
        clock.at += timedelta(seconds=10)
        answers.append(api.ask("GET", "/api/v1/runs", role=None, headers=one))
    unknown = api.ask("GET", "/api/v1/no-such", role=None)

    assert {(answer.status_code, answer.text) for answer in (*answers, unknown)} == {(401, answers[0].text)}
    assert answers[0].headers["www-authenticate"] == 'Bearer realm="unstick"'


def test_a_request_with_two_authorizations_is_nobody_s(api: Api) -> None:
    good = f"Bearer {api.tokens[Role.VIEWER]}"

    answer = api.ask("GET", "/api/v1/runs", role=None, headers=[("Authorization", good), ("Authorization", good)])

    assert answer.status_code == 401


def test_who_is_not_known_learns_nothing_of_his_body(api: Api) -> None:
    answer = api.ask("POST", "/api/v1/runs", role=None, content=b"{", headers={"Content-Type": "text/plain"})

    assert problem(answer)[0] == 401


def test_the_scheme_is_read_without_regard_to_case(api: Api) -> None:
    headers = {"Authorization": f"bearer {api.tokens[Role.VIEWER]}"}

    assert api.ask("GET", "/api/v1/runs", role=None, headers=headers).status_code == 200


def test_a_token_that_is_revoked_is_useless_at_once(api: Api, world: World) -> None:
    before = api.get("/runs").status_code

    revoke_token(world.service, Role.VIEWER, by="admin")

    assert (before, api.get("/runs").status_code) == (200, 401)


def test_a_token_that_is_used_while_it_is_revoked_stays_revoked(api: Api, world: World, clock: SteppedClock) -> None:
    store = world.service.store
    real_read = store.read
    revoked: list[bool] = []
    clock.at += timedelta(minutes=5)

    class RevokedMeanwhile:
        """Revokes the token between the look at it and the note of its use."""

        def read(self, look):  # type: ignore[no-untyped-def]
            found = real_read(look)
            if not revoked:
                revoke_token(world.service, Role.VIEWER, by="admin")
                revoked.append(True)
            return found

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

    racing = replace(world.service, store=RevokedMeanwhile())  # type: ignore[arg-type]
    Api(create_app(racing), api.tokens).get("/runs")

    assert api.get("/runs").status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/docs", "/openapi.json", "/static/docs.js"])
def test_s22_what_is_open_needs_no_token(api: Api, path: str) -> None:
    assert api.ask("GET", path, role=None).status_code == 200


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/static/"]
)
def test_s08_the_open_folder_gives_nothing_but_its_files(api: Api, path: str) -> None:
    assert api.ask("GET", path, role=None).status_code in (401, 404)


def test_permissions_are_those_of_the_domain() -> None:
    assert Needs(Permission.READ).permission is Permission.READ
