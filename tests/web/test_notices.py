"""What people were told, over the API: to whom, how far it has come, and no address or secret."""

from datetime import timedelta

from service.domain.errors import NotTold
from service.domain.notice import NoticeKind, NoticeRule
from service.domain.person import Role
from tests.support.notices import BASE, HOOK, ONCALL, config, follow, listen, tell
from tests.support.world import World
from tests.web.api import Api, problem


def told(world: World) -> None:
    """Have the gate of a run told to a chat, and its end to a chat and to a program that does not take it."""
    both = NoticeRule(("oncall", "hook"), frozenset({NoticeKind.ENDED}))
    rules = (NoticeRule(("oncall",), frozenset({NoticeKind.GATE})), both)
    follower, kept = listen(world, config(*rules, receivers=(ONCALL, HOOK)))
    kept.broken["hook"] = NotTold("It answered 410: it wants nothing more.", final=True)
    run = world.request("abort-stuck-fuse", "gpu-01")
    world.settle()
    follow(follower)
    tell(world)
    world.play(run)
    follow(follower)
    tell(world)


def test_everybody_who_may_read_sees_what_was_told_to_whom_and_how_far_it_came(api: Api, world: World) -> None:
    told(world)
    # The application was made before somebody listened; it shows what the record says.
    api.app.state.service = world.service

    page = api.get("/notices").json()

    rows = {(one["kind"], one["receiver"]): one for one in page["items"]}
    assert {key: (one["state"], one["attempts"], one["reason"]) for key, one in rows.items()} == {
        ("gate", "oncall"): ("sent", 1, ""),
        ("ended", "oncall"): ("sent", 1, ""),
        ("ended", "hook"): ("given_up", 1, "It answered 410: it wants nothing more."),
    }
    gate = rows["gate", "oncall"]
    assert gate["title"] == "Gate open: abort-stuck-fuse, step abort-dead, on gpu-01"
    assert (gate["link"].startswith(f"{BASE}/gates/"), gate["nodes"], gate["next_at"]) == (True, ["gpu-01"], None)


def test_the_list_is_filtered_and_goes_on_page_after_page(api: Api, world: World) -> None:
    told(world)

    lost = api.get("/notices", state="given_up").json()["items"]
    gates = api.get("/notices", kind="gate", receiver="oncall").json()["items"]
    first = api.get("/notices", limit=2).json()
    second = api.get("/notices", limit=2, cursor=first["next_cursor"]).json()

    assert [(one["kind"], one["receiver"]) for one in lost] == [("ended", "hook")]
    assert [one["kind"] for one in gates] == ["gate"]
    assert [one["kind"] for one in (*first["items"], *second["items"])] == ["ended", "ended", "gate"]
    assert second["next_cursor"] is None
    assert problem(api.get("/notices", stat="given_up"))[:2] == (422, "invalid_input")


def test_metrics_say_what_waits_and_what_was_given_up(api: Api, world: World) -> None:
    told(world)
    follower, kept = listen(world)
    kept.broken["oncall"] = NotTold("It answered 500.")
    world.request("abort-stuck-fuse", "gpu-03")
    world.settle()
    follow(follower)
    world.move_to(world.clock.now() + timedelta(seconds=60))

    text = api.ask("GET", "/metrics", role=Role.VIEWER).text

    assert 'unstick_notices_given_up{receiver="hook"} 1.0' in text
    assert 'unstick_notices_pending{receiver="oncall"} 1.0' in text
    assert 'unstick_notices_oldest_seconds{receiver="oncall"} 60.' in text
