"""Pause, resume and the breaker over the API."""

from dataclasses import replace
from datetime import UTC, datetime

from service.app.ports import Transaction
from service.domain.alert import AlertStatus
from service.domain.delivery import AlertVerdict, Breaker, Delivery, DeliveryState, HeldBy, Pause, RecordedAlert
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


def test_what_keeps_alerts_from_starting_runs_is_a_number_for_monitors(api: Api, world: World) -> None:
    def stop(transaction: Transaction) -> None:
        transaction.put_pause(Pause("ann", "a rule is wrong", AT))
        transaction.put_breaker(Breaker(BLAST_RADIUS, AT, "10 nodes"))
        made = Delivery("d1", "prom", AT, DeliveryState.ACCEPTED, "prom")
        held = RecordedAlert("a1", "d1", 0, "prom", "prom", AT, "f1", AlertStatus.FIRING, AT)
        held = replace(held, judged_at=AT, verdict=AlertVerdict.HELD, held_by=HeldBy.PAUSE, wake_at=AT)
        new = replace(held, id="a2", index=1, judged_at=None, verdict=None, held_by=None)
        transaction.add_deliveries([made], [held, new])

    world.service.store.write(stop)

    text = api.ask("GET", "/metrics").text

    for line in (
        "unstick_alerts_paused 1.0",
        'unstick_breaker_latched{breaker="blast-radius"} 1.0',
        'unstick_alerts_held{by="pause"} 1.0',
        'unstick_alerts_held{by="busy"} 0.0',
        "unstick_alerts_unjudged 1.0",
    ):
        assert f"\n{line}\n" in text
