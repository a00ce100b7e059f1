"""Whatever is sent to the API, as each role and as nobody: no defect, no answer that is not declared, nobody let in."""

from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from service.domain.person import Role
from service.web.app import create_app
from service.web.rates import rates_of
from tests.app.surveying import looked_at
from tests.proof.counts import count
from tests.support.world import World
from tests.web.api import Api
from tests.web.conftest import (  # noqa: F401 - fixtures
    api,
    clock,
    empty_database,
    executor,
    inventory,
    runbooks,
    world,
)

pytestmark = pytest.mark.proof

CASES = count("schemathesis_cases", 50_000)
#: Streams of runs do not end by themselves; they have tests of their own.
LEFT_OUT = {"/api/v1/runs/{run_id}/events"}
OPEN = {"/healthz", "/readyz"}
WHO: list[Role | None] = [*Role, None]


@pytest.mark.parametrize("role", WHO, ids=[str(role or "nobody") for role in WHO])
def test_no_request_of_any_form_breaks_the_service(
    world: World,  # noqa: F811 - the fixture
    api: Api,  # noqa: F811 - the fixture
    role: Role | None,
    record_property: Callable[[str, object], None],
) -> None:
    looked_at(world)
    asked = Api(create_app(world.service, rates=rates_of(1_000_000)), api.tokens)
    document: dict[str, Any] = asked.app.openapi()
    document = {**document, "paths": {path: one for path, one in document["paths"].items() if path not in LEFT_OUT}}
    schema = schemathesis.openapi.from_asgi("/openapi.json", asked.app)
    strategy = schemathesis.openapi.from_dict(document).as_strategy()
    headers = {} if role is None else {"Authorization": f"Bearer {asked.tokens[role]}"}
    played = 0

    @settings(
        max_examples=-(-CASES // len(WHO)),
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def check(case: Any) -> None:
        nonlocal played
        played += 1
        sent = schema[case.path][case.method].Case(
            path_parameters=case.path_parameters, query=case.query, body=case.body, headers=headers
        )
        answer = sent.call()
        sent.validate_response(answer, excluded_checks=[schemathesis.checks.ignored_auth])
        assert answer.status_code < 500 or answer.status_code == 503
        if role is None and case.path not in OPEN:
            assert answer.status_code == 401

    check()

    record_property("proof", f"schemathesis as {role or 'nobody'}: no defect, nothing undeclared, nobody let in")
    record_property("count", played)
