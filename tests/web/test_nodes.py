"""Nodes, holds and runbooks over HTTP."""

from datetime import timedelta

import pytest

from service.domain.person import Role
from tests.support.world import SteppedClock, World
from tests.web.api import CURE, Api, problem

HOLD = {"reason": "the vendor looks at it"}


def test_a_node_is_shown_without_the_way_to_its_keys(api: Api) -> None:
    node = api.get("/nodes/gpu-01").json()

    assert node == {
        "name": "gpu-01",
        "executor": "local",
        "address": "gpu-01",
        "pools": ["h100"],
        "controller": "head",
        "attributes": {"rack": "r1"},
        "sources": [],
        "stale": False,
        "hints": {},
        "hold": None,
        "occupied_by": None,
    }


def test_nodes_page_by_name(api: Api) -> None:
    first = api.get("/nodes", limit=12).json()
    second = api.get("/nodes", limit=12, cursor=first["next_cursor"]).json()

    names = [node["name"] for node in first["items"] + second["items"]]
    assert names == [f"gpu-{number:02}" for number in range(1, 21)]
    assert second["next_cursor"] is None


def test_nodes_are_narrowed_by_pool(api: Api) -> None:
    assert api.get("/nodes", pool="a100").json() == {"items": [], "next_cursor": None}


def test_a_node_says_which_run_has_it(api: Api, world: World) -> None:
    run_id = api.request("gpu-01")
    world.settle()

    node = api.get("/nodes/gpu-01").json()

    assert node["occupied_by"] == {"run_id": run_id, "runbook": "abort-stuck-fuse", "state": "waiting"}


def test_a_hold_ends_what_waits_and_refuses_what_comes(api: Api, world: World, clock: SteppedClock) -> None:
    run_id = api.request("gpu-01")
    world.settle()
    until = clock.at + timedelta(hours=2)

    held = api.post("/nodes/gpu-01/hold", {**HOLD, "until": until.isoformat()})
    world.settle()
    refused = api.post("/runs", CURE)

    assert held.status_code == 200
    assert (held.json()["stopped_runs"], held.json()["running_runs"]) == ([run_id], [])
    assert api.get(f"/runs/{run_id}").json()["state"] == "cancelled"
    words = f"Node gpu-01 is on hold by operator until {until:%Y-%m-%d %H:%M}+00:00: the vendor looks at it"
    assert problem(refused) == (409, "conflict", words)
    assert api.get("/nodes/gpu-01").json()["hold"]["by"] == "operator"


def test_a_hold_that_is_over_is_not_shown(api: Api, clock: SteppedClock) -> None:
    until = clock.at + timedelta(hours=2)
    api.post("/nodes/gpu-01/hold", {**HOLD, "until": until.isoformat()})

    clock.at = until

    assert api.get("/nodes/gpu-01").json()["hold"] is None


def test_a_released_node_takes_runs_again(api: Api) -> None:
    api.post("/nodes/gpu-01/hold", HOLD)

    released = api.post("/nodes/gpu-01/release", {"reason": "it is back"})

    assert (released.status_code, released.json()["node"]) == (200, "gpu-01")
    assert (released.json()["hold"]["by"], released.json()["hold"]["reason"]) == ("operator", "the vendor looks at it")
    assert api.post("/runs", CURE).status_code == 202
    assert problem(api.post("/nodes/gpu-01/release"))[:2] == (409, "conflict")


def test_a_second_hold_is_refused_unless_it_says_that_it_replaces_the_first(api: Api) -> None:
    api.post("/nodes/gpu-01/hold", HOLD)

    second = api.post("/nodes/gpu-01/hold", {"reason": "memtest"})
    kept = api.get("/nodes/gpu-01").json()["hold"]["reason"]
    replaced = api.post("/nodes/gpu-01/hold", {"reason": "memtest", "replace": True})

    assert problem(second) == (409, "conflict", "Node gpu-01 is on hold by operator: the vendor looks at it")
    assert (kept, replaced.json()["hold"]["reason"]) == ("the vendor looks at it", "memtest")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"reason": " "},
        {**HOLD, "until": "2001-01-01T00:00:00Z"},
        {**HOLD, "until": "2099-01-01T00:00:00"},
        {**HOLD, "until": 4e9},
    ],
    ids=["no reason", "blank reason", "past", "no offset", "a number"],
)
def test_a_hold_without_reason_or_sense_is_refused(api: Api, body: dict[str, object]) -> None:
    assert problem(api.post("/nodes/gpu-01/hold", body))[:2] == (422, "invalid_input")


@pytest.mark.parametrize("path", ["/nodes/gpu-99", "/runbooks/no-such", "/runs/none", "/approvals/none"])
def test_what_is_not_there_is_not_found(api: Api, path: str) -> None:
    assert problem(api.get(path))[:2] == (404, "not_found")


@pytest.mark.parametrize("path", ["/nodes/-x", "/runbooks/a_b", "/runs/a.b", "/attempts/%00/output"])
def test_a_name_that_cannot_be_one_is_refused(api: Api, path: str) -> None:
    assert problem(api.get(path))[:2] == (422, "invalid_input")


def test_runbooks_are_listed_with_what_they_are_for(api: Api) -> None:
    listed = api.get("/runbooks").json()

    cure = next(one for one in listed["items"] if one["name"] == "abort-stuck-fuse")
    assert (cure["acts"], listed["refused"], listed["next_cursor"]) == (True, [], None)
    assert "/dev/fuse" in cure["description"]


def test_a_runbook_is_shown_with_parameters_steps_and_text(api: Api) -> None:
    runbook = api.get("/runbooks/abort-stuck-fuse", role=Role.APPROVER).json()

    steps = {step["id"]: step for step in runbook["steps"]}
    params = {param["name"]: param for param in runbook["params"]}
    assert (steps["abort-hung"]["approval"], steps["abort-hung"]["waivable"]) == ("second_person", False)
    assert (params["hold_seconds"]["type"], params["hold_seconds"]["default"]) == ("integer", 60)
    assert (runbook["limits"]["concurrent_nodes"], runbook["limits"]["approval_expires"]) == ("10%", 3600)
    assert "schema: 1" in runbook["source"]
