"""Breaking glass over HTTP and on the page: apart from every answer, asked twice, and shown for what it is."""

from dataclasses import replace

import pytest

from service.domain.person import Role
from service.domain.policy import Policy
from service.domain.run import Gate, GateState
from tests.app.alerting import Fixed
from tests.support.world import World
from tests.web.api import Api, problem
from tests.web.browsing import Browser, opened, signed_in, words

REASON = "nobody else answers"


def now(world: World, gate: Gate) -> Gate:
    return world.service.store.read(lambda reader: reader.gate(gate.id))


@pytest.fixture
def world(world: World) -> World:
    """Give the service with a policy that allows it."""
    world.service = replace(world.service, policy=Fixed(Policy(break_glass=True)))
    return world


@pytest.fixture
def gate(api: Api, world: World) -> Gate:
    """Give a gate that a second person must answer."""
    return opened(world, api, "gpu-02")


@pytest.fixture
def breaker(api: Api, gate: Gate) -> Browser:
    """Give the browser of somebody who may break glass."""
    return signed_in(api, Role.BREAK_GLASS)


def test_a_gate_is_overridden_by_its_own_address_alone(api: Api, world: World, gate: Gate) -> None:
    body = {"digest": gate.digest, "reason": REASON}

    asked = api.get(f"/approvals/{gate.id}", role=Role.BREAK_GLASS).json()
    approving = api.post(f"/approvals/{gate.id}/approve", body, role=Role.BREAK_GLASS)
    overriding = api.post(f"/approvals/{gate.id}/override", body, role=Role.BREAK_GLASS)
    world.settle()

    assert (asked["may_override"], asked["may_answer"], approving.status_code) == (True, False, 403)
    assert (overriding.status_code, overriding.json()["state"]) == (200, "overridden")
    shown = api.get(f"/runs/{gate.run_id}").json()["gates"][0]
    assert (shown["state"], shown["decided_by"], shown["reason"]) == ("overridden", "break-glass", REASON)
    assert "unstick_gates_overridden 1.0" in api.ask("GET", "/metrics").text


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "\u200b \u2800"}])
def test_it_takes_a_reason_over_http(api: Api, world: World, gate: Gate, body: dict[str, str]) -> None:
    answer = api.post(f"/approvals/{gate.id}/override", {"digest": gate.digest, **body}, role=Role.BREAK_GLASS)

    assert (answer.status_code, now(world, gate)) == (422, gate)


def test_another_digest_than_the_one_shown_overrides_nothing(
    api: Api, world: World, gate: Gate, breaker: Browser
) -> None:
    other = "0" * 64

    answer = api.post(f"/approvals/{gate.id}/override", {"digest": other, "reason": REASON}, role=Role.BREAK_GLASS)
    page = breaker.send(f"/gates/{gate.id}/override", digest=other, reason=REASON, node="gpu-02")

    assert (answer.status_code, page.status_code, now(world, gate)) == (409, 409, gate)
    assert "The digest is not that of this gate" in words(page)


def test_where_the_policy_does_not_allow_it_the_words_say_so_and_no_page_offers_it(
    api: Api, world: World, gate: Gate, breaker: Browser
) -> None:
    object.__setattr__(world.service.policy, "value", Policy())

    answer = api.post(
        f"/approvals/{gate.id}/override", {"digest": gate.digest, "reason": REASON}, role=Role.BREAK_GLASS
    )

    assert problem(answer)[0] == 403
    assert "the policy does not say `break_glass: true`" in answer.json()["detail"]
    assert "/override" not in breaker.get(f"/gates/{gate.id}").text


@pytest.mark.parametrize("role", [Role.APPROVER, Role.OPERATOR, Role.ADMIN])
def test_the_page_offers_it_to_nobody_else(api: Api, world: World, gate: Gate, role: Role) -> None:
    browser = signed_in(api, role)

    page = browser.get(f"/gates/{gate.id}")
    sent = browser.send(f"/gates/{gate.id}/override", digest=gate.digest, reason=REASON, node="gpu-02")

    assert "/override" not in page.text
    assert (sent.status_code, now(world, gate)) == (403, gate)


def test_the_page_asks_once_more_and_takes_the_name_of_the_node_alone(
    world: World, gate: Gate, breaker: Browser
) -> None:
    page = breaker.get(f"/gates/{gate.id}")

    first = breaker.send(f"/gates/{gate.id}/override", digest=gate.digest, reason=REASON)
    slip = breaker.send(f"/gates/{gate.id}/override", digest=gate.digest, reason=REASON, node="gpu-01")
    unchanged = now(world, gate)
    meant = breaker.send(f"/gates/{gate.id}/override", digest=gate.digest, reason=REASON, node="gpu-02")

    assert f'action="/gates/{gate.id}/override"' in page.text
    assert f'action="/gates/{gate.id}/answer"' not in page.text
    assert "You may not approve or deny this gate; all you may do is break glass, which passes it" in words(page)
    assert (first.status_code, "Every receiver of notices is told" in words(first), REASON in first.text) == (
        200,
        True,
        True,
    )
    assert (slip.status_code, "Nothing was decided." in words(slip), unchanged) == (422, True, gate)
    assert (meant.status_code, now(world, gate).state) == (303, GateState.OVERRIDDEN)
    said = words(breaker.get(f"/gates/{gate.id}"))
    assert "The gate was OVERRIDDEN, without the approval that it asks for, by break-glass at" in said


def test_a_form_of_another_page_overrides_nothing(world: World, gate: Gate, breaker: Browser) -> None:
    fields = {"digest": gate.digest, "reason": REASON, "node": "gpu-02", "form_token": "0" * 64}

    answer = breaker.post(f"/gates/{gate.id}/override", fields)

    assert (answer.status_code, now(world, gate)) == (403, gate)
