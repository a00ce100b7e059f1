"""Sweeps and the fleet over the API, and how the command line writes them."""

from datetime import timedelta
from typing import Any

import pytest

from service.app.sweep_places import give_places
from service.cli.sweeps import print_fleet
from service.domain.person import Role
from service.domain.schedule import read_schedule
from service.domain.sweep import Sweep
from tests.app.sweeping import come, schedule, state, turn
from tests.support.world import World
from tests.web.api import Api, problem

NIGHTLY = Sweep(
    "nightly",
    "abort-stuck-fuse",
    read_schedule("17 3 * * *"),
    attributes={"rack": "r1"},
    jitter=timedelta(minutes=10),
    ends_within=timedelta(days=2),
)


@pytest.fixture
def swept(world: World) -> World:
    return schedule(world, NIGHTLY)


def test_the_fleet_shows_who_would_need_what_and_who_was_never_looked_at(swept: World, api: Api) -> None:
    before = api.get("/fleet").json()["items"]
    run = api.post("/sweeps/nightly/run", {"reason": "before the week begins"})
    give_places(swept.service)
    turn(swept)
    page = api.get("/fleet", limit=2).json()
    rest = api.get("/fleet", limit=2, cursor=page["next_cursor"]).json()

    assert [(one["node"], one["finding"], one["age_seconds"]) for one in before] == [
        ("gpu-01", None, None),
        ("gpu-02", None, None),
        ("gpu-03", None, None),
    ]
    assert (run.status_code, run.headers["location"]) == (202, f"/api/v1/runs/{run.json()['run_id']}")
    row = page["items"][0]
    assert (row["node"], row["sweep"], row["finding"], row["run_id"]) == (
        "gpu-01",
        "nightly",
        "needs",
        run.json()["run_id"],
    )
    assert [(one["id"], one["finding"]) for one in row["steps"]] == [
        ("abort-dead", "needs"),
        ("abort-hung", "fine"),
        ("unmount", "not_asked"),
        ("well", "fine"),
    ]
    assert [one["since"] is not None for one in row["steps"]] == [True, False, False, False]
    assert ([one["node"] for one in rest["items"]], rest["next_cursor"]) == (["gpu-03"], None)
    asked = api.get(f"/runs/{run.json()['run_id']}").json()
    assert (asked["requested_by"], asked["dry_run"], asked["trigger"]["kind"]) == ("operator", True, "sweep")


def test_a_sweep_is_listed_with_its_times_and_why_one_was_skipped(swept: World, api: Api) -> None:
    come(swept)
    first = state(swept).last_run_id
    come(swept)

    listed = api.get("/sweeps").json()["items"]

    assert len(listed) == 1
    shown = listed[0]
    assert (shown["cron"], shown["nodes"], shown["jitter_seconds"], shown["last_run_id"]) == (
        "17 3 * * *",
        3,
        600.0,
        first,
    )
    assert shown["skipped"] == f"Run {first}, of the time before, has not ended."
    assert shown["next_at"] > shown["skipped_at"] > shown["last_at"]


def test_what_is_not_there_or_open_already_is_refused(swept: World, api: Api) -> None:
    api.post("/sweeps/nightly/run")

    assert problem(api.post("/sweeps/nightly/run"))[:2] == (409, "conflict")
    assert problem(api.post("/sweeps/other/run"))[:2] == (404, "not_found")
    assert problem(api.get("/fleet", sweep="other"))[:2] == (404, "not_found")
    assert problem(api.post("/sweeps/nightly/run", role=Role.VIEWER))[0] == 403


def test_the_table_of_the_fleet_stands_in_eighty_columns(
    swept: World, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.post("/sweeps/nightly/run")
    turn(swept)
    rows: list[dict[str, Any]] = api.get("/fleet").json()["items"]

    print_fleet(rows)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sweep nightly (abort-stuck-fuse)"
    assert lines[5].split() == ["NODE", "1", "2", "3", "4", "LOOKED"]
    assert [line.split()[:5] for line in lines[6:9]] == [
        ["gpu-01", "NEEDS", "fine", "-", "fine"],
        ["gpu-02", "fine", "NEEDS", "-", "fine"],
        ["gpu-03", "NEEDS", "fine", "-", "fine"],
    ]
    assert lines[9] == "3 needs"
    assert max(map(len, lines)) <= 80
