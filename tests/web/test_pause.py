"""Pause, resume and the breaker over the API."""

from datetime import UTC, datetime

from service.app.ports import Transaction
from service.domain.delivery import Breaker
from service.domain.person import Role
from service.domain.rails import BLAST_RADIUS
from tests.support.world import World
from tests.web.api import Api, problem

AT = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


def test_an_admin_pauses_and_resumes_and_everybody_sees_it(api: Api) -> None:
    paused = api.post("/pause", {"reason": "a rule is wrong"}, role=Role.ADMIN)
    again = api.post("/pause", {"reason": "a rule is wrong"}, role=Role.ADMIN)
    seen = api.get("/pause").json()
    resumed = api.post("/resume", {"reason": "it is mended"}, role=Role.ADMIN)

    assert (paused.status_code, paused.json()["by"], paused.json()["reason"]) == (200, "admin", "a rule is wrong")
    assert problem(again)[:2] == (409, "conflict")
    assert (seen["paused"], seen["pause"]) == (True, paused.json())
    assert (resumed.status_code, resumed.json()) == (200, {"judged_again": 0})
    assert api.get("/pause").json()["paused"] is False


def test_a_latched_breaker_is_seen_and_reset_with_a_reason(api: Api, world: World) -> None:
    def latch(transaction: Transaction) -> None:
        transaction.put_breaker(Breaker(BLAST_RADIUS, AT, "10 nodes"))

    world.service.store.write(latch)

    before = api.get("/pause").json()["breakers"]
    without = api.post(f"/breakers/{BLAST_RADIUS}/reset", {"reason": ""}, role=Role.ADMIN)
    reset = api.post(f"/breakers/{BLAST_RADIUS}/reset", {"reason": "it was real"}, role=Role.ADMIN)
    after = api.get("/pause").json()["breakers"]

    assert [(one["name"], one["latched"], one["reason"]) for one in before] == [(BLAST_RADIUS, True, "10 nodes")]
    assert (without.status_code, reset.status_code) == (422, 200)
    assert [(one["latched"], one["reset_by"], one["reset_reason"]) for one in after] == [
        (False, "admin", "it was real")
    ]
