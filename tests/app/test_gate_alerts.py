"""The page of a gate says why the run was begun, once for each occasion."""

from datetime import timedelta

from service.app.show_gate import show_gate_in_full
from tests.app.alerting import alert, follow, rule, say
from tests.app.conftest import Make, works
from tests.support.world import SECOND


def test_an_alert_that_is_repeated_while_its_gate_is_open_is_shown_once_as_it_was_last_said(make: Make) -> None:
    world = follow(make(works("cure")), rule(waive=(), dedup=timedelta(hours=1)))
    first = alert(world, annotations={"summary": "64 MiB"})
    say(world, first)
    world.settle()
    (gate,) = world.open_gates()

    for size in range(65, 75):
        say(world, alert(world, starts_at=first.starts_at, annotations={"summary": f"{size} MiB"}))
    say(world, alert(world, fingerprint="f2", starts_at=first.starts_at, annotations={"summary": "another"}))

    shown = show_gate_in_full(world.service, gate.id, person=SECOND).alerts
    assert [one.annotations["summary"] for one in shown] == ["74 MiB", "another"]
