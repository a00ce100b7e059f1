"""Signing in and out: what a session is worth, and to whom."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from service.app.ports import AuditFilter
from service.app.tokens import create_token, revoke_token
from service.domain.person import Role
from service.domain.script import sha256
from service.store.sql_store import SqlStore
from service.web.failed_sign_ins import MOST_OF_ALL, MOST_OF_ONE, FailedSignIns
from service.web.page_paths import safe_next
from service.web.sessions import COOKIE
from tests.support.world import SteppedClock, World
from tests.web.api import Api
from tests.web.browsing import HTML, OWN, Browser, opened, signed_in, words


def facts(world: World) -> list[tuple[str, str, str]]:
    """Return what the record says of sessions: action, person, and why."""
    page = world.service.store.read(lambda reader: reader.audit(AuditFilter(), cursor=None, limit=100))
    told = [event.fact for event in reversed(page.items) if event.fact.action.startswith("session.")]
    return [(fact.action, fact.person, str(fact.body.get("reason", ""))) for fact in told]


def test_who_has_not_signed_in_is_led_to_the_door_and_back(api: Api) -> None:
    browser = Browser(api)

    away = browser.get("/gates/some-gate")
    door = browser.get(away.headers["location"])
    to = re.search(r'name="next" value="([^"]*)"', door.text)
    back = browser.sign_in(Role.VIEWER, next=to[1] if to else "")

    assert (away.status_code, away.headers["location"]) == (303, "/sign-in?next=/gates/some-gate")
    assert (back.status_code, back.headers["location"]) == (303, "/gates/some-gate")


def test_the_cookie_is_bound_to_this_host_and_hidden_from_scripts(api: Api) -> None:
    answer = Browser(api).sign_in(Role.APPROVER)

    cookie, *flags = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith(f"{COOKIE}=")
    assert COOKIE.startswith("__Host-")
    assert {flag.lower() for flag in flags} == {"httponly", "secure", "path=/", "samesite=lax", "max-age=43200"}


def test_a_session_that_ends_while_its_form_comes_decides_nothing(api: Api, world: World) -> None:
    gate = opened(world, api)
    browser = signed_in(api, Role.APPROVER)
    token = re.search(r'name="form_token" value="([0-9a-f]{64})"', browser.get("/gates").text)
    assert token is not None

    async def slowly() -> AsyncIterator[bytes]:
        revoke_token(world.service, Role.APPROVER, by="admin")
        yield f"form_token={token[1]}&answer=approve&digest={gate.digest}".encode()

    kind = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": f"{COOKIE}={browser.cookie}"}
    answer = api.ask("POST", f"/gates/{gate.id}/answer", role=None, headers={**HTML, **OWN, **kind}, content=slowly())

    assert (answer.status_code, "Nothing was done." in words(answer)) == (401, True)
    assert world.open_gates() == [gate]


def test_only_the_digest_of_the_cookie_is_stored(api: Api, world: World) -> None:
    browser = signed_in(api, Role.APPROVER)

    store = world.service.store
    assert isinstance(store, SqlStore)
    kept = store.read(lambda reader: reader.session_by_sha256(sha256(browser.cookie)))
    assert kept is not None
    assert browser.cookie not in repr(kept)
    assert facts(world) == [("session.opened", "approver", "")]


def test_a_session_opens_pages_and_no_api(api: Api) -> None:
    cookie = {"Cookie": f"{COOKIE}={signed_in(api, Role.APPROVER).cookie}"}

    asked = [api.ask("GET", path, role=None, headers=cookie) for path in ("/api/v1/runs", "/metrics")]
    sent = api.ask("POST", "/api/v1/approvals/x/deny", role=None, headers=cookie, json={"digest": "0" * 64})

    assert [answer.status_code for answer in (*asked, sent)] == [401, 401, 401]


def test_a_token_opens_the_api_and_no_page(api: Api) -> None:
    looked = api.ask("GET", "/gates", role=Role.APPROVER, headers=HTML)
    sent = api.ask("POST", "/gates/x/answer", role=Role.APPROVER, headers=HTML, data={"answer": "approve"})

    assert (looked.status_code, looked.headers["location"]) == (303, "/sign-in?next=/gates")
    assert sent.status_code == 401
    assert "Nothing was done." in words(sent)


def test_signing_in_gives_a_new_value_whatever_the_browser_came_with(api: Api, world: World) -> None:
    planted, browser = "a" * 43, Browser(api)
    browser.cookie = planted
    browser.sign_in(Role.APPROVER)
    first = browser.cookie
    browser.sign_in(Role.VIEWER)

    old = Browser(api, first)
    assert len({planted, first, browser.cookie}) == 3
    assert (Browser(api, planted).get("/gates").status_code, old.get("/gates").status_code) == (303, 303)
    assert facts(world)[1:] == [("session.closed", "approver", "signed in anew"), ("session.opened", "viewer", "")]


def test_signing_out_ends_the_session_wherever_its_cookie_was_copied_to(api: Api, world: World) -> None:
    browser = signed_in(api, Role.APPROVER)
    copy = Browser(api, browser.cookie)

    out = browser.send("/sign-out")

    assert (out.status_code, out.headers["location"]) == (303, "/sign-in?out=1")
    assert browser.cookie == ""
    assert copy.get("/gates").status_code == 303
    assert facts(world)[-1] == ("session.closed", "approver", "signed out")


@pytest.mark.parametrize(
    ("pauses", "why"),
    [([61], "it was not used for an hour"), ([55] * 14, "it had lasted 12 hours")],
)
def test_a_session_ends_when_it_is_idle_and_when_it_is_old(
    api: Api, world: World, clock: SteppedClock, pauses: list[int], why: str
) -> None:
    browser = signed_in(api, Role.APPROVER)

    answers = []
    for minutes in pauses:
        clock.at += timedelta(minutes=minutes)
        answers.append(browser.get("/gates").status_code)

    assert answers[-1] == 303
    assert set(answers[:-1]) <= {200}
    assert facts(world)[-1] == ("session.closed", "approver", why)


def test_a_token_that_is_revoked_or_has_expired_ends_its_sessions_at_once(
    api: Api, world: World, clock: SteppedClock
) -> None:
    reader, soon = frozenset({Role.VIEWER}), clock.now() + timedelta(minutes=5)
    short = create_token(world.service, "short", roles=reader, person="p", by="t", expires=soon)
    first, second = signed_in(api, Role.APPROVER), Browser(api)
    second.post("/sign-in", {"token": short})
    before = [browser.get("/gates").status_code for browser in (first, second)]

    revoke_token(world.service, Role.APPROVER, by="admin")
    clock.at += timedelta(minutes=5)

    assert before == [200, 200]
    assert [browser.get("/gates").status_code for browser in (first, second)] == [303, 303]
    assert [fact[2] for fact in facts(world)[-2:]] == ["its token was revoked", "its token has expired"]


def test_ended_sessions_are_swept_when_somebody_signs_in(api: Api, world: World, clock: SteppedClock) -> None:
    signed_in(api, Role.VIEWER)
    clock.at += timedelta(hours=13)

    signed_in(api, Role.APPROVER)

    assert facts(world)[1:] == [
        ("session.closed", "viewer", "it had lasted 12 hours"),
        ("session.opened", "approver", ""),
    ]


def test_every_token_that_does_not_open_the_pages_is_refused_in_the_same_words(api: Api, world: World) -> None:
    gone = create_token(world.service, "gone", roles=frozenset({Role.VIEWER}), person="p", by="t")
    revoke_token(world.service, "gone", by="t")
    tokens = [api.tokens[Role.SOURCE], gone, "unstick_wrong", "", "Zażółć", "x" * 900]

    answers = [Browser(api).post("/sign-in", {"token": token}) for token in tokens]

    assert {(answer.status_code, words(answer)) for answer in answers} == {(401, words(answers[0]))}
    assert "This token does not open the pages." in words(answers[0])
    assert not any("set-cookie" in answer.headers for answer in answers)


def test_a_token_may_be_pasted_with_blanks_around_it(api: Api) -> None:
    assert Browser(api).post("/sign-in", {"token": f"  {api.tokens[Role.VIEWER]}\r\n"}).status_code == 303


@pytest.mark.parametrize(
    "to",
    [
        "//evil.test",
        "/\\evil.test",
        "https://evil.test/gates",
        "/gates/../docs",
        "/gates//evil.test",
        "/gates/%2e%2e",
        "/%2f/evil.test",
        "/gates\n//evil.test",
        "/gates/x\n",
        "/gates/x?next=//evil.test",
        "javascript:alert(1)",
        "/sign-out",
        " /gates",
    ],
)
def test_signing_in_leads_to_no_other_place_than_our_pages(api: Api, to: str) -> None:
    answer = Browser(api).sign_in(Role.VIEWER, next=to)

    assert (answer.status_code, answer.headers["location"]) == (303, "/gates")


def test_signing_in_leads_to_the_gate_that_was_asked_for() -> None:
    assert [safe_next(one) for one in ("/gates", "/gates/0198c3a2-9b02", "")] == [
        "/gates",
        "/gates/0198c3a2-9b02",
        "/gates",
    ]


def test_who_tries_many_tokens_waits_a_minute(api: Api, clock: SteppedClock) -> None:
    tried = [Browser(api).post("/sign-in", {"token": "unstick_wrong"}).status_code for _ in range(MOST_OF_ONE)]
    refused = Browser(api).sign_in(Role.VIEWER)
    clock.at += timedelta(minutes=1)
    later = Browser(api).sign_in(Role.VIEWER)

    assert tried == [401] * MOST_OF_ONE
    assert (refused.status_code, refused.headers["retry-after"], later.status_code) == (429, "60", 303)


def test_a_flood_from_many_addresses_keeps_nobody_out_who_has_not_failed() -> None:
    clock, failed = SteppedClock(), FailedSignIns()
    now = clock.now()
    for number in range(MOST_OF_ALL):
        failed.count(f"192.0.2.{number % 250}", now=now)

    assert not failed.may_try("192.0.2.1", now=now)
    assert failed.may_try("198.51.100.7", now=now)
    failed.count("198.51.100.7", now=now)
    assert not failed.may_try("198.51.100.7", now=now)
    assert failed.may_try("198.51.100.7", now=now + timedelta(minutes=1))


def test_one_customer_of_ipv6_is_one_address() -> None:
    failed, now = FailedSignIns(), SteppedClock().now()
    for number in range(MOST_OF_ONE):
        failed.count(f"2001:db8:1:2::{number:x}", now=now)

    assert not failed.may_try("2001:db8:1:2:ffff::1", now=now)
    assert failed.may_try("2001:db8:1:3::1", now=now)


def test_a_browser_that_has_signed_in_starts_at_the_gates(api: Api) -> None:
    browser = signed_in(api, Role.VIEWER)

    assert (browser.get("/").headers["location"], Browser(api).get("/").headers["location"]) == ("/gates", "/docs")
    assert browser.get("/sign-in?next=/gates/x").headers["location"] == "/gates/x"
