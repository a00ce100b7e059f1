"""Runs over HTTP: request, look, cancel, retry, resolve."""

import hashlib
from typing import Any

import pytest

from service.domain.person import Role
from service.domain.script import Report, ReportState, ScriptKind
from service.executors.scripted import Answer, ScriptedExecutor
from tests.support.world import World
from tests.web.api import CURE, Api, problem
from tests.web.conftest import TARGET, dead_server


def gates_of(api: Api, run_id: str) -> list[dict[str, Any]]:
    run = api.get(f"/runs/{run_id}").json()
    return [gate for gate in run["gates"] if gate["state"] == "open"]


def cure(api: Api, world: World, run_id: str) -> dict[str, Any]:
    """Play a run and approve each of its gates; return how it ended."""
    world.settle()
    for gate in gates_of(api, run_id):
        answer = api.post(f"/approvals/{gate['id']}/approve", {"digest": gate["digest"]}, role=Role.APPROVER)
        assert answer.status_code == 200, answer.text
    world.settle()
    ended: dict[str, Any] = api.get(f"/runs/{run_id}").json()
    return ended


def test_a_request_is_accepted_and_says_where_the_run_is(api: Api) -> None:
    answer = api.post("/runs", CURE)

    run = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (202, f"/api/v1/runs/{run['id']}")
    assert api.get(f"/runs/{run['id']}").json() == run


def test_a_run_is_shown_as_the_contract_says(api: Api, world: World) -> None:
    run_id = api.request()

    run = cure(api, world, run_id)

    assert {name: run[name] for name in ("id", "runbook", "state", "dry_run", "requested_by", "trigger", "reason")} == {
        "id": run_id,
        "runbook": "abort-stuck-fuse",
        "state": "succeeded",
        "dry_run": False,
        "requested_by": "operator",
        "trigger": {"kind": "person", "name": ""},
        "reason": "readers hang",
    }
    assert len(run["digest"]) == 64
    [gate] = run["gates"]
    assert {name: gate[name] for name in ("step", "node", "state", "kind", "targets", "decided_by")} == {
        "step": "abort-dead",
        "node": "gpu-01",
        "state": "approved",
        "kind": "confirm",
        "targets": [TARGET],
        "decided_by": "approver",
    }
    assert gate.keys() >= {"id", "digest", "expires_at"}
    [node] = run["nodes"]
    assert (node["node"], node["state"], node["verdict"]) == ("gpu-01", "succeeded", "cured")
    assert [(step["id"], step["outcome"]) for step in node["steps"]] == [
        ("evidence", "ok"),
        ("abort-dead", "changed"),
        ("abort-hung", "ok"),
        ("unmount", "skipped"),
        ("well", "ok"),
    ]
    assert node["steps"][1]["targets"] == [TARGET]
    assert [one["script"] for one in node["steps"][1]["attempts"]] == ["check", "run", "verify"]
    assert node["steps"][1]["attempts"][0].keys() >= {
        "id",
        "script",
        "exit_code",
        "started_at",
        "finished_at",
        "output_sha256",
        "truncated",
        "state",
        "reason",
        "boot_id",
        "signal",
    }


def test_all_output_is_stdout_then_stderr_and_has_the_recorded_sha256(api: Api, world: World) -> None:
    run = cure(api, world, api.request())
    attempt = run["nodes"][0]["steps"][0]["attempts"][0]

    whole = api.get(f"/attempts/{attempt['id']}/output")
    parts = [api.get(f"/attempts/{attempt['id']}/output", stream=stream).content for stream in ("stdout", "stderr")]

    assert whole.content == b"a reader hangs\nand a warning\n" == b"".join(parts)
    assert hashlib.sha256(whole.content).hexdigest() == attempt["output_sha256"]
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"] == f'attachment; filename="{attempt["id"]}-all.txt"'


def test_output_goes_on_from_an_offset(api: Api, world: World) -> None:
    run = cure(api, world, api.request())
    attempt = run["nodes"][0]["steps"][0]["attempts"][0]

    rest = api.get(f"/attempts/{attempt['id']}/output", stream="stdout", offset=9)

    assert rest.content == b"hangs\n"


def test_a_dry_run_looks_and_sends_nothing_that_acts(api: Api, world: World, executor: ScriptedExecutor) -> None:
    run_id = api.request(dry_run=True)
    world.settle()

    run = api.get(f"/runs/{run_id}").json()

    assert [(step["id"], step["outcome"]) for step in run["nodes"][0]["steps"]][1] == ("abort-dead", "would_change")
    assert [order for order in executor.orders if order.acting] == []
    assert run["gates"] == []


def test_the_same_key_and_request_is_the_same_run(api: Api) -> None:
    key = {"Idempotency-Key": "incident-4711"}

    first, again = (api.post("/runs", CURE, headers=key) for _ in range(2))

    assert first.status_code == again.status_code == 202
    assert first.json()["id"] == again.json()["id"]
    assert len(api.get("/runs").json()["items"]) == 1


def test_the_same_key_with_another_request_is_a_conflict(api: Api) -> None:
    key = {"Idempotency-Key": "incident-4711"}
    first = api.post("/runs", CURE, headers=key).json()

    other = api.post("/runs", {**CURE, "nodes": ["gpu-02"]}, headers=key)

    assert problem(other) == (
        409,
        "conflict",
        f"The idempotency key was used for another request, run {first['id']}.",
    )


def test_the_same_key_of_two_persons_is_two_runs(api: Api, world: World) -> None:
    key = {"Idempotency-Key": "incident-4711"}
    api.post("/runs", CURE, headers=key)

    world.request("abort-stuck-fuse", "gpu-01", idempotency_key="incident-4711", reason="readers hang")
    api.post("/runs", CURE, headers=key)

    assert len(api.get("/runs").json()["items"]) == 1


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({**CURE, "waived": ["abort-dead"]}, "body.waived: There is no such field."),
        ({**CURE, "dryrun": True}, "body.dryrun: There is no such field."),
        ({"nodes": ["gpu-01"]}, "body.runbook: Field required."),
        ({**CURE, "dry_run": "yes"}, "body.dry_run: Input should be a valid boolean."),
        ({**CURE, "nodes": []}, "No node was named."),
        ({**CURE, "nodes": ["gpu-01", "gpu-01"]}, "A node was named twice."),
        ({**CURE, "params": {"hold_seconds": 1}}, "hold_seconds is 1."),
        ({**CURE, "params": {"hold": 9}}, "abort-stuck-fuse has no parameter hold."),
        ({**CURE, "nodes": [], "selector": {"pool": None}}, "body.selector: Name a pool or an attribute; "),
        ({**CURE, "selector": {"pool": "h100"}}, "Both nodes and a selector were given."),
        ([], "body: Input should be a valid dictionary or object to extract fields from."),
    ],
)
def test_a_request_that_is_not_understood_is_refused_with_its_reason(api: Api, body: object, detail: str) -> None:
    answer = api.post("/runs", body)

    status, code, said = problem(answer)
    assert (status, code) == (422, "invalid_input")
    assert said.startswith(detail)


@pytest.mark.parametrize("text", ["a\0b", "a\x1b[31m", "\ud800"])
def test_text_that_a_database_or_a_terminal_stumbles_over_is_refused(api: Api, text: str) -> None:
    body = '{"runbook": "abort-stuck-fuse", "nodes": ["gpu-01"], "reason": %s}'
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in text)

    answer = api.ask(
        "POST",
        "/api/v1/runs",
        role=Role.OPERATOR,
        content=body % f'"{escaped}"',
        headers={"Content-Type": "application/json"},
    )

    assert problem(answer)[:2] == (422, "invalid_input")


@pytest.mark.parametrize(
    ("more", "detail"),
    [
        ({"runbook": "no-such"}, "There is no runbook no-such."),
        ({"nodes": ["gpu-99"]}, "There is no node gpu-99 in the inventory."),
    ],
)
def test_what_is_not_there_is_not_found(api: Api, more: dict[str, object], detail: str) -> None:
    assert problem(api.post("/runs", {**CURE, **more})) == (404, "not_found", detail)


def test_a_selector_finds_the_nodes_of_a_pool(api: Api) -> None:
    body = {"runbook": "abort-stuck-fuse", "selector": {"pool": "h100", "attributes": {"rack": "r1"}}, "dry_run": True}

    run = api.post("/runs", body).json()

    assert [node["node"] for node in run["nodes"]] == ["gpu-01", "gpu-02", "gpu-03"]


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ({"pool": "a100"}, "No node is in the pool a100. The pools are: h100."),
        ({"attributes": {"row": "1"}}, "No node has an attribute row. The attributes are: rack."),
        ({"pool": "h100", "attributes": {"rack": "r9"}}, "No node has rack=r9. Its values are: r1, r2."),
    ],
)
def test_a_selector_that_finds_nothing_says_what_matched_nothing_and_what_there_is(
    api: Api, selector: dict[str, Any], told: str
) -> None:
    answer = api.post("/runs", {"runbook": "abort-stuck-fuse", "selector": selector})

    refused = answer.json()
    assert (answer.status_code, f"{refused['detail']} {refused['way_out']}") == (422, told)


def test_a_list_shows_runs_newest_first_without_steps_and_pages(api: Api) -> None:
    ids = [api.request(dry_run=True, nodes=nodes) for nodes in (["gpu-01"], ["gpu-02"], ["gpu-01", "gpu-02", "gpu-03"])]

    first = api.get("/runs", limit=2).json()
    second = api.get("/runs", limit=2, cursor=first["next_cursor"]).json()

    assert [row["id"] for row in first["items"] + second["items"]] == ids[::-1]
    assert second["next_cursor"] is None
    assert first["items"][0]["first_nodes"] == ["gpu-01", "gpu-02", "gpu-03"]
    assert {"nodes", "steps", "gates"} & first["items"][0].keys() == set()


def test_a_list_is_narrowed_by_its_filters(api: Api, world: World) -> None:
    waiting = api.request("gpu-01")
    dry = api.request("gpu-02", dry_run=True)
    world.settle()

    found = {
        name: [row["id"] for row in api.find("/runs", query).json()["items"]]
        for name, query in {
            "state": {"state": "waiting"},
            "node": {"node": "gpu-02"},
            "dry_run": {"dry_run": "true"},
            "nobody": {"requested_by": "somebody"},
            "empty is no filter": {"runbook": ""},
        }.items()
    }

    assert found == {
        "state": [waiting],
        "node": [dry],
        "dry_run": [dry],
        "nobody": [],
        "empty is no filter": [dry, waiting],
    }


@pytest.mark.parametrize("query", [{"state": "paused"}, {"limit": 0}, {"limit": 201}, {"nodes": "gpu-01"}])
def test_a_filter_that_is_none_is_refused_and_not_ignored(api: Api, query: dict[str, object]) -> None:
    assert problem(api.find("/runs", query))[:2] == (422, "invalid_input")


def test_a_cursor_of_another_list_is_refused(api: Api) -> None:
    assert problem(api.get("/runs", cursor="x"))[2] == "The cursor is not one that this list gave."


def test_the_plan_of_a_run_is_every_script_byte_for_byte(api: Api, world: World, executor: ScriptedExecutor) -> None:
    run_id = api.request()
    world.settle()

    plan = api.get(f"/runs/{run_id}/plan").json()

    scripts = {(one["step"], one["kind"]): one for one in plan["items"][0]["scripts"]}
    sent = {(order.step, order.kind.value): order.text for order in executor.orders}
    assert {place: scripts[place]["text"] for place in sent} == sent
    assert all(hashlib.sha256(one["text"].encode()).hexdigest() == one["sha256"] for one in scripts.values())
    assert plan["digest"] == api.get(f"/runs/{run_id}").json()["digest"]
    assert plan["source"].startswith("#") or "abort-stuck-fuse" in plan["source"]


def test_a_plan_pages_by_node(api: Api) -> None:
    run_id = api.request(nodes=["gpu-03", "gpu-01", "gpu-02"], dry_run=True)

    first = api.get(f"/runs/{run_id}/plan", limit=2).json()
    second = api.get(f"/runs/{run_id}/plan", limit=2, cursor=first["next_cursor"]).json()

    assert [one["node"] for one in first["items"] + second["items"]] == ["gpu-03", "gpu-01", "gpu-02"]
    assert second["next_cursor"] is None


def test_a_preview_has_the_digest_of_the_run_and_records_nothing(api: Api) -> None:
    preview = api.post("/plans", CURE, role=Role.VIEWER).json()

    assert api.get("/runs").json()["items"] == []
    assert preview["digest"] == api.post("/runs", CURE).json()["digest"]
    assert preview["params"]["hold_seconds"] == 60


def test_cancel_says_requested_and_the_run_ends_cancelled(api: Api, world: World) -> None:
    run_id = api.request()
    world.settle()

    answer = api.post(f"/runs/{run_id}/cancel", {"reason": "wrong node"})
    world.settle()

    assert (answer.status_code, answer.json()["requested"], answer.json()["stuck"]) == (202, ["gpu-01"], [])
    assert "may still be running" in answer.json()["note"]
    assert api.get(f"/runs/{run_id}").json()["state"] == "cancelled"


def test_a_run_that_has_ended_cannot_be_cancelled(api: Api, world: World) -> None:
    run_id = api.request()
    cure(api, world, run_id)

    answer = api.post(f"/runs/{run_id}/cancel")

    assert problem(answer)[:2] == (409, "conflict")
    assert api.get(f"/runs/{run_id}").json()["state"] == "succeeded"


def test_a_retry_is_a_new_run_and_the_same_key_makes_one(api: Api, world: World) -> None:
    run_id = api.request()
    cure(api, world, run_id)
    key = {"Idempotency-Key": "again"}

    first, second = (api.post(f"/runs/{run_id}/retry", {"reason": "once more"}, headers=key) for _ in range(2))

    run = first.json()
    assert (first.status_code, first.headers["location"]) == (202, f"/api/v1/runs/{run['id']}")
    assert (run["retry_of"], run["requesters"]) == (run_id, ["operator"])
    assert second.json()["id"] == run["id"] != run_id


def test_a_run_that_is_open_is_not_retried(api: Api) -> None:
    run_id = api.request()

    assert problem(api.post(f"/runs/{run_id}/retry"))[2] == f"Run {run_id} has not ended."


def test_a_run_that_waits_is_taken_over_and_ends_cancelled(api: Api, world: World) -> None:
    waits = api.request()
    world.settle()

    taker = api.request(take_over=True)
    world.settle()

    ended = api.get(f"/runs/{waits}").json()
    assert (ended["state"], ended["nodes"][0]["reason"]) == ("cancelled", "taken over by operator")
    assert api.get(f"/runs/{taker}").json()["state"] == "waiting"


class TestAStuckNode:
    """The outcome of an acting script is unknown."""

    @pytest.fixture
    def executor(self) -> ScriptedExecutor:
        lost = Report(ReportState.UNKILLABLE, pid=4711, wchan="fuse_wait", reason="It does not die.")
        return ScriptedExecutor(dead_server("gpu-01") | {("gpu-01", "abort-dead", ScriptKind.RUN): [Answer(lost)]})

    @pytest.fixture
    def run_id(self, api: Api, world: World) -> str:
        run_id = api.request()
        cure(api, world, run_id)
        return run_id

    def test_it_is_shown_with_what_hangs(self, api: Api, run_id: str) -> None:
        run = api.get(f"/runs/{run_id}").json()

        attempt = run["nodes"][0]["steps"][1]["attempts"][1]
        assert (run["state"], run["nodes"][0]["state"]) == ("stuck", "stuck")
        assert (attempt["state"], attempt["pid"], attempt["wchan"]) == ("unkillable", 4711, "fuse_wait")

    def test_a_person_resolves_it_with_a_reason(self, api: Api, world: World, run_id: str) -> None:
        body = {"as": "failed", "reason": "The node goes to the vendor."}

        answer = api.post(f"/runs/{run_id}/nodes/gpu-01/resolve", body)
        world.settle()

        ended = api.get(f"/runs/{run_id}").json()
        assert (answer.status_code, answer.json()["node"]) == (202, "gpu-01")
        assert (ended["state"], ended["nodes"][0]["verdict"]) == ("failed", "unknown")

    @pytest.mark.parametrize("body", [{"as": "failed"}, {"as": "failed", "reason": " "}, {"as": "ok", "reason": "x"}])
    def test_a_resolution_without_reason_or_sense_is_refused(
        self, api: Api, run_id: str, body: dict[str, object]
    ) -> None:
        assert problem(api.post(f"/runs/{run_id}/nodes/gpu-01/resolve", body))[:2] == (422, "invalid_input")

    def test_the_numbers_show_it(self, api: Api, run_id: str) -> None:
        metrics = api.ask("GET", "/metrics").text

        assert "unstick_node_runs_stuck 1.0" in metrics
        assert 'unstick_node_runs{state="stuck"} 1.0' in metrics


def test_what_is_not_stuck_is_not_resolved(api: Api) -> None:
    run_id = api.request()

    answer = api.post(f"/runs/{run_id}/nodes/gpu-01/resolve", {"as": "failed", "reason": "x"})

    assert problem(answer) == (409, "conflict", f"Node gpu-01 of run {run_id} is queued, not stuck.")
