"""The floor under everything that is served: other origins, other hosts, forged addresses."""

import pytest

from service.domain.errors import ConfigInvalid
from service.domain.person import Role
from service.web.app import create_app
from service.web.forwarded import Forwarded
from service.web.rates import Rate, Rates
from tests.support.world import World
from tests.web.api import Api
from tests.web.browsing import signed_in
from tests.web.test_access import FILLED, ROUTES


@pytest.mark.parametrize("origin", ["null", "https://elsewhere.example"])
def test_s11_no_route_lets_another_origin_in(api: Api, origin: str) -> None:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}

    found = {
        (method, path, name)
        for path in {path.format_map(FILLED) for _, path, _, _ in ROUTES if not path.endswith("/events")}
        for method in ("GET", "OPTIONS")
        for name in api.ask(method, path, headers=asked).headers
        if name.startswith("access-control")
    }

    assert found == set()


def test_s12_a_page_that_was_led_here_by_another_name_cannot_send_a_form(api: Api) -> None:
    """A browser that takes evil.test for this machine says so as origin and as host, and has no cookie of it."""
    browser = signed_in(api, Role.OPERATOR)

    answer = browser.api.ask(
        "POST",
        "/alerting/pause",
        role=None,
        headers={"Host": "evil.test", "Origin": "http://evil.test"},
        data={"a": "b"},
    )

    assert answer.status_code == 401


def test_s23_a_forwarded_address_is_believed_from_a_named_proxy_alone(world: World, api: Api) -> None:
    few = Rates(address=Rate(0.001, 1))
    app = create_app(world.service, rates=few, forwarders="192.0.2.1")
    behind = Api(app, api.tokens)

    answers = [
        behind.ask("GET", "/docs", role=None, headers={"X-Forwarded-For": f"203.0.113.{number}"}).status_code
        for number in range(2)
    ]

    # Each time it is the connection's own address that is counted.
    assert answers == [200, 429]
    with pytest.raises(ConfigInvalid, match="anybody would be believed"):
        Forwarded(app, proxies="*")
