"""The page of the fleet: the worst first, with sums, and nothing that was not seen fine looks as if it were."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest

from service.app.ports import Transaction
from service.domain.node import Inventory
from service.domain.person import Role
from service.domain.rule import RuleSet
from service.domain.schedule import read_schedule
from service.domain.sweep import Finding, NodeLook, OpenFinding, StepFinding, Sweep, SweepState
from tests.app.alerting import Fixed
from tests.support.world import SteppedClock, World, local_nodes
from tests.web.api import Api
from tests.web.browsing import Browser, signed_in, words
from tests.web.conftest import NODES

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202egnp.exe"
NIGHTLY = Sweep("nightly", "abort-stuck-fuse", read_schedule("17 3 * * *"), attributes={"rack": "r1"})
WEEKLY = Sweep("weekly", "abort-stuck-fuse", read_schedule("0 4 * * 0"), pool="h100")
STEPS = ("abort-dead", "abort-hung", "unmount", "well")
FINE = (Finding.FINE,) * 4
Look = Callable[..., None]


@pytest.fixture
def inventory() -> Inventory:
    """Give the three nodes of a rack, and a hundred others."""
    played = local_nodes(*NODES, pool="h100", attributes={"rack": "r1"})
    others = local_nodes(*(f"n-{number:03}" for number in range(1, 101)), pool="h100", attributes={"rack": "r2"})
    return replace(played, nodes={**played.nodes, **others.nodes})


@pytest.fixture
def swept(world: World) -> World:
    """Give a service with two sweeps, that were played an hour ago."""
    world.service = replace(world.service, rules=Fixed(RuleSet({}, (), (NIGHTLY, WEEKLY))))
    now = world.clock.now()
    hour = timedelta(hours=1)

    def play(transaction: Transaction) -> None:
        for one in (NIGHTLY, WEEKLY):
            transaction.put_sweep(SweepState(one.name, one.words, now, now + hour, "run-1", now - hour))

    world.service.store.write(play)
    return world


@pytest.fixture
def look(swept: World) -> Look:
    """Give what writes the newest look at a node."""
    at = swept.clock.now() - timedelta(minutes=59)

    def write(
        node: str, finding: Finding, *found: Finding, sweep: Sweep = NIGHTLY, reason: str = "", **more: str
    ) -> None:
        steps = tuple(StepFinding(step, one, reason) for step, one in zip(STEPS, found or FINE, strict=False))
        answered = at if finding is not Finding.COULD_NOT_LOOK else at - timedelta(days=2)
        seen = NodeLook(node, sweep.name, sweep.runbook, more.get("run_id", "run-1"), at, finding, steps, answered)

        def put(transaction: Transaction) -> None:
            transaction.put_look(seen)
            for one in steps:
                if one.finding.fires:
                    transaction.put_finding(OpenFinding(node, sweep.name, one.step, at - timedelta(hours=3)))

        swept.service.store.write(put)

    return write


def nodes(text: str) -> list[str]:
    """Return the nodes of all tables, in their order."""
    return re.findall(r'<th scope="row">([^<]*)</th>', text)


def test_the_worst_stands_first_with_why_and_since_when_and_what_was_not_seen_is_not_fine(look: Look, api: Api) -> None:
    look("gpu-01", Finding.FINE)
    look("gpu-02", Finding.COULD_NOT_LOOK, *[Finding.COULD_NOT_LOOK] * 4, reason="It is unreachable.")
    look("gpu-03", Finding.NOT_WELL, Finding.FINE, Finding.FINE, Finding.NOT_ASKED, Finding.NOT_WELL, reason="2 hang.")

    page = signed_in(api, Role.VIEWER).get("/fleet?sweep=nightly")
    said = words(page)

    assert page.status_code == 200
    assert nodes(page.text) == ["gpu-03", "gpu-02", "gpu-01"]
    assert "3 nodes: 1 NOT WELL, 1 ? (could not look), 1 fine" in said
    assert "well: NOT WELL for 3 h: 2 hang." in said
    assert "abort-dead, abort-hung, unmount, well: ?: It is unreachable." in said
    assert "All of it last answered 2 d ago" in said
    assert "Last played 1 h ago, run run-1. Next at 2026-11-29 04:00:00 UTC." in said
    assert "Abort connections whose server is provably gone" in said
    assert re.findall(r'<span class="word (\w+)">([^<]*)</span></td>', page.text)[:8] == [
        ("good", "fine"),
        ("good", "fine"),
        ("quiet", "-"),
        ("bad", "NOT WELL"),
        *[("doubt", "?")] * 4,
    ]
    assert "59 min ago" in said


def test_a_node_or_a_step_that_nobody_has_looked_at_is_not_fine(look: Look, api: Api) -> None:
    look("gpu-01", Finding.FINE, *FINE[:3])
    look("gpu-02", Finding.FINE)

    page = signed_in(api, Role.VIEWER).get("/fleet?sweep=nightly")
    told = {one["node"]: one["finding"] for one in api.get("/fleet", sweep="nightly").json()["items"]}

    assert nodes(page.text) == ["gpu-01", "gpu-03", "gpu-02"]
    assert "3 nodes: 2 never looked at, 1 fine" in words(page)
    assert page.text.count('<span class="word doubt">never</span></td>') == 1 + 4 + 1
    assert told == {"gpu-01": None, "gpu-02": "fine", "gpu-03": None}


def test_all_sweeps_stand_on_one_page_with_the_first_of_their_nodes(look: Look, api: Api) -> None:
    look("n-050", Finding.NEEDS, Finding.NEEDS, *FINE[1:], sweep=WEEKLY)

    page = signed_in(api, Role.VIEWER).get("/fleet")

    shown = nodes(page.text)
    assert (shown[:5], len(shown)) == (["gpu-01", "gpu-02", "gpu-03", "n-050", "gpu-01"], 3 + 20)
    assert "103 nodes: 1 NEEDS, 102 never looked at" in words(page)
    assert "All 103 nodes of weekly" in words(page)


def test_the_next_page_begins_where_the_one_before_has_ended(look: Look, api: Api) -> None:
    browser = signed_in(api, Role.VIEWER)
    look("n-050", Finding.NEEDS, Finding.NEEDS, *FINE[1:], sweep=WEEKLY)
    look("gpu-02", Finding.FINE, sweep=WEEKLY)

    first = browser.get("/fleet?sweep=weekly&pool=h100")
    link = unescape(re.findall(r'href="(/fleet\?[^"]*cursor[^"]*)"', first.text)[0])
    second = browser.get(link)

    assert link == "/fleet?sweep=weekly&pool=h100&cursor=never.n-098"
    assert [len(nodes(one.text)) for one in (first, second)] == [100, 3]
    assert (nodes(first.text)[0], nodes(second.text)[-1]) == ("n-050", "gpu-02")
    assert {*nodes(first.text), *nodes(second.text)} == {*NODES, *(f"n-{number:03}" for number in range(1, 101))}
    assert "103 nodes: 1 NEEDS, 101 never looked at, 1 fine" in words(second)
    assert ("From the beginning" in words(first), "From the beginning" in words(second)) == (False, True)


def test_a_pool_narrows_rows_and_sums(look: Look, api: Api) -> None:
    look("gpu-01", Finding.FINE)

    some = signed_in(api, Role.VIEWER).get("/fleet?sweep=nightly&pool=h100")
    none = signed_in(api, Role.VIEWER).get("/fleet?sweep=&pool=other")

    assert "3 nodes: 2 never looked at, 1 fine" in words(some)
    assert "<option selected>h100</option>" in some.text
    assert (nodes(none.text), words(none).count("It means no node of the pool other.")) == ([], 2)


def test_why_a_look_is_older_than_the_schedule_is_told(swept: World, api: Api, clock: SteppedClock) -> None:
    at = clock.now() - timedelta(minutes=20)
    state = SweepState("nightly", NIGHTLY.words, at, at, skipped_at=clock.now(), skipped="Run r of before is open.")
    swept.service.store.write(lambda transaction: transaction.put_sweep(state))

    said = words(signed_in(api, Role.VIEWER).get("/fleet?sweep=nightly"))

    assert "Never played." in said
    assert "Its time at 2026-11-29 03:00:00 UTC was skipped: Run r of before is open." in said
    assert "It was due at 2026-11-29 02:40:00 UTC and was not played: is the engine running?" in said


def test_without_a_sweep_the_page_says_that_nothing_is_known(world: World, api: Api) -> None:
    said = words(signed_in(api, Role.VIEWER).get("/fleet"))

    assert "There are no sweeps: nothing is looked at on a schedule, so nothing is known here of any node." in said


def test_hostile_words_are_shown_inert(look: Look, api: Api) -> None:
    look("gpu-01", Finding.NOT_WELL, Finding.NOT_WELL, *FINE[1:], reason=HOSTILE, run_id="<b>")

    page = signed_in(api, Role.VIEWER).get("/fleet?sweep=nightly")

    assert page.text.count("<script") == 1
    assert not re.search(r"<(b|img)\b|\x1b|\u202e", page.text)
    assert "<script>alert(1)</script>\\x1b[31m\\u202egnp.exe" in unescape(page.text)


def test_who_may_read_sees_it_and_who_is_not_signed_in_is_led_to_the_door_and_back(look: Look, api: Api) -> None:
    nobody, source = Browser(api), Browser(api)
    source.sign_in(Role.SOURCE)

    led = nobody.get("/fleet?sweep=nightly")
    seen = [signed_in(api, role).get("/fleet").status_code for role in (Role.OPERATOR, Role.BREAK_GLASS)]

    assert (led.status_code, led.headers["location"]) == (303, "/sign-in?next=/fleet")
    assert signed_in(api, Role.VIEWER).sign_in(Role.VIEWER, next="/fleet").headers["location"] == "/fleet"
    assert (seen, source.get("/fleet").status_code) == ([200, 200], 303)
    assert api.ask("GET", "/fleet", role=Role.VIEWER, headers={"Accept": "application/json"}).status_code == 401


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        ("sweep=other", 404, "There is no sweep other."),
        ("sweep=nightly&cursor=worse.gpu-01", 422, "The cursor is none of this list."),
        ("sweeps=nightly", 422, "sweeps"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_a_way_back(
    look: Look, api: Api, asked: str, status: int, told: str
) -> None:
    page = signed_in(api, Role.VIEWER).get(f"/fleet?{asked}")

    assert (page.status_code, told in words(page)) == (status, True)
    assert '<a class="button" href="/fleet">Back</a>' in page.text
