"""What runs on a node over HTTP."""

from typing import Any

import pytest

from service.domain.person import Role
from service.domain.survey import Kind, Occupant, could_not_look, not_asked, seen
from tests.app.surveying import Told, looked_at
from tests.support.world import World
from tests.web.api import Api, problem

PODS = seen([Occupant("ml/train-0", {"owner": "Job/train"}), Occupant("sys/exporter", apart="DaemonSet")])


@pytest.fixture
def told(world: World) -> Told:
    """Let a surveyor look before the application is made."""
    surveyor = looked_at(world)
    surveyor.parts |= {Kind.PODS: PODS, Kind.JOBS: not_asked("no"), Kind.USERS: could_not_look("no answer")}
    return surveyor


def parts(answer: Any) -> dict[str, Any]:
    return {part["kind"]: part for part in answer["parts"]}


def test_a_gate_carries_what_ran_on_its_node_in_full_and_a_list_in_one_line(told: Told, api: Api, world: World) -> None:
    api.request("gpu-01")
    world.settle()
    listed = api.get("/approvals").json()["items"][0]

    shown = api.get(f"/approvals/{listed['id']}").json()

    assert listed["occupants"] == "0 foreign owners, 1 pod, 0 GPU processes; users: could not look: no answer"
    assert parts(shown["survey"])["pods"] == {
        "kind": "pods",
        "sight": "seen",
        "why": "",
        "count": 1,
        "apart": 1,
        "found": [
            {"name": "ml/train-0", "facts": {"owner": "Job/train"}, "apart": ""},
            {"name": "sys/exporter", "facts": {}, "apart": "DaemonSet"},
        ],
    }
    assert (listed["over"], shown["survey"]["over"]) == ([], [])


def test_who_may_read_may_look_at_a_node(told: Told, api: Api) -> None:
    seen_now = api.get("/nodes/gpu-01/survey").json()

    assert list(parts(seen_now)) == ["owners", "pods", "jobs", "users", "gpu_processes"]
    assert parts(seen_now)["users"]["why"] == "no answer"
    assert told.surveyed == ["gpu-01"]


def test_a_node_that_is_not_known_and_a_service_that_looks_at_none_say_so(api: Api) -> None:
    unknown = api.get("/nodes/gpu-99/survey", role=Role.VIEWER)
    nobody = api.get("/nodes/gpu-01/survey", role=Role.VIEWER)

    assert problem(unknown)[0] == 404
    assert problem(nobody)[0] == 503
