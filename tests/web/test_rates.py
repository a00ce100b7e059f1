"""Whoever asks too much waits, and keeps out nobody else."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from service.domain.person import Role
from service.web.app import create_app
from service.web.failed_sign_ins import FailedSignIns
from service.web.rates import Buckets, Rate, Rates
from tests.support.world import SteppedClock, World
from tests.web.api import Api, problem
from tests.web.browsing import Browser, signed_in

#: So slow that no bucket fills again while a test goes on.
FEW = Rates(person=Rate(0.001, 3), address=Rate(0.001, 2))
WRONG = {"Authorization": "Bearer unstick_wrong"}


@pytest.fixture
def limited(world: World, api: Api) -> Api:
    """Give the application with small bounds."""
    return Api(create_app(world.service, rates=FEW), api.tokens)


def statuses(api: Api, times: int, **asked: Any) -> list[int]:
    """Return what the same request is answered with, so many times."""
    return [api.ask("GET", "/api/v1/runbooks", **asked).status_code for _ in range(times)]


def test_s14_a_person_who_asks_too_much_waits_and_nobody_else_does(limited: Api) -> None:
    viewer = statuses(limited, 4)
    refused = limited.ask("GET", "/api/v1/runbooks")

    assert viewer == [200, 200, 200, 429]
    assert problem(refused) == (429, "too_many", "More was asked than is answered at once.")
    assert int(refused.headers["retry-after"]) > 0
    assert statuses(limited, 1, role=Role.OPERATOR) == [200]


def test_s14_a_person_s_pages_count_as_his(limited: Api) -> None:
    browser = signed_in(limited, Role.VIEWER)

    pages: list[httpx.Response] = [browser.get("/gates") for _ in range(4)]

    assert [page.status_code for page in pages] == [200, 200, 200, 429]
    assert "Ask again in" in pages[-1].text
    assert statuses(limited, 1, role=Role.VIEWER) == [429]


def test_s14_an_address_at_which_nobody_is_known_waits_and_probes_and_persons_do_not(limited: Api) -> None:
    pages = [limited.ask("GET", "/docs", role=None).status_code for _ in range(3)]

    assert pages == [200, 200, 429]
    assert [limited.ask("GET", "/healthz", role=None).status_code for _ in range(3)] == [200] * 3
    assert statuses(limited, 1) == [200]


def from_addresses(api: Api, *addresses: str) -> list[int]:
    """Return what whoever is known to nobody is answered with, by way of a proxy on this machine."""
    return [api.ask("GET", "/docs", role=None, headers={"X-Forwarded-For": one}).status_code for one in addresses]


def test_s14_other_addresses_of_one_network_are_one_place_and_those_of_ipv4_are_not(limited: Api) -> None:
    assert from_addresses(limited, "2001:db8::1", "2001:db8::2", "2001:db8:0:0:3::4") == [200, 200, 429]
    assert from_addresses(limited, *(f"::ffff:192.0.2.{last}" for last in (1, 2, 3))) == [200] * 3
    assert from_addresses(limited, "192.0.2.1", "192.0.2.1") == [200, 429]


def test_s14_wrong_tokens_from_one_address_keep_no_other_of_ipv4_out() -> None:
    failed, now = FailedSignIns(), datetime(2026, 11, 29, 3, tzinfo=UTC)
    for _ in range(10):
        failed.count("::ffff:192.0.2.1", now=now)

    may = [failed.may_try(one, now=now) for one in ("::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.2", "::1")]

    assert may == [False, False, True, True]


def test_s14_deliveries_are_never_answered_with_429(limited: Api) -> None:
    answers = {limited.ask("POST", "/webhooks/prom", role=None, content=b"{}").status_code for _ in range(12)}

    assert answers == {401}


def test_s14_ten_wrong_tokens_a_minute_and_a_good_one_is_let_through(api: Api, clock: SteppedClock) -> None:
    known = statuses(api, 1)

    wrong = statuses(api, 11, role=None, headers=WRONG)
    others = (statuses(api, 1), statuses(api, 1, role=Role.OPERATOR))
    clock.at = clock.at.replace(minute=clock.at.minute + 2)

    assert known == [200]
    assert wrong == [401] * 10 + [429]
    # The one that was good before goes on; another of the same address waits for a minute.
    assert others == ([200], [429])
    assert statuses(api, 1, role=Role.OPERATOR) == [200]


def test_s14_no_token_at_all_costs_nothing_and_is_not_counted(api: Api) -> None:
    assert statuses(api, 11, role=None) == [401] * 11
    assert Browser(api).get("/sign-in").status_code == 200


def test_s14_a_bucket_fills_again_and_there_are_not_endlessly_many() -> None:
    at = [0.0]
    buckets = Buckets(Rate(2.0, 2), now=lambda: at[0])

    first = [buckets.take("ann") for _ in range(3)]
    for number in range(10_000):
        buckets.take(str(number))
    at[0] = 0.5

    assert first == [0, 0, 0.5]
    assert buckets.take("bob") == 0
