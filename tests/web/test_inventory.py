"""Where nodes come from, over HTTP and as numbers."""

from dataclasses import replace
from datetime import timedelta

import pytest

from service.domain.node import Inventory, SourceKind, SourceState
from tests.support.world import SteppedClock, local_nodes
from tests.web.api import Api, problem

START = SteppedClock().at


@pytest.fixture
def inventory() -> Inventory:
    plain = local_nodes("gpu-01")
    node = replace(plain.nodes["gpu-01"], sources=("fleet",), hints={"ssm_ping": "Online"})
    bound = timedelta(minutes=10)
    answered = START - timedelta(minutes=20)
    sources = (
        SourceState("fleet", SourceKind.SSM, answered, bound, problem="AccessDenied.", nodes=1),
        SourceState("k8s", SourceKind.KUBERNETES, None, bound, problem="No way."),
    )
    return replace(plain, nodes={"gpu-01": node}, sources=sources, refused={"gpu-02": "gpu-02 is two: a, b."})


def test_each_source_is_shown_with_its_age_and_its_problem(api: Api) -> None:
    shown = api.get("/inventory").json()

    ages = [source.pop("age_seconds") for source in shown["sources"]]
    assert (int(ages[0]), ages[1]) == (1200, None)
    assert shown == {
        "sources": [
            {
                "name": "fleet",
                "kind": "ssm",
                "answered_at": (START - timedelta(minutes=20)).isoformat().replace("+00:00", "Z"),
                "stale": True,
                "stale_after_seconds": 600.0,
                "problem": "AccessDenied.",
                "nodes": 1,
            },
            {
                "name": "k8s",
                "kind": "kubernetes",
                "answered_at": None,
                "stale": True,
                "stale_after_seconds": 600.0,
                "problem": "No way.",
                "nodes": 0,
            },
        ],
        "refused": [{"name": "gpu-02", "reason": "gpu-02 is two: a, b."}],
        "problem": None,
    }


def test_a_stale_node_says_so_with_its_hints(api: Api) -> None:
    node = api.get("/nodes/gpu-01").json()

    assert (node["sources"], node["stale"], node["hints"]) == (["fleet"], True, {"ssm_ping": "Online"})


@pytest.mark.parametrize("name", ["gpu-02", "gpu-99"])
def test_a_node_that_is_not_clear_or_not_known_is_a_conflict(api: Api, name: str) -> None:
    answer = api.get(f"/nodes/{name}")

    assert problem(answer)[:2] == (409, "conflict")


def test_the_numbers_tell_of_stale_sources(api: Api) -> None:
    text = api.ask("GET", "/metrics").text

    lines = [line for line in text.splitlines() if line.startswith(("unstick_node_source", "unstick_node_names"))]
    assert lines[0].startswith('unstick_node_source_age_seconds{source="fleet"} 1200.')
    assert lines[1:] == [
        'unstick_node_source_stale{source="fleet"} 1.0',
        'unstick_node_source_stale{source="k8s"} 1.0',
        'unstick_node_source_nodes{source="fleet"} 1.0',
        'unstick_node_source_nodes{source="k8s"} 0.0',
        "unstick_node_names_refused 1.0",
    ]
