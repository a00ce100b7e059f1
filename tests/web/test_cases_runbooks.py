"""A folder of runbooks as people leave it, seen through the API: bad files beside good ones, odd shell, odd values."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.app.tokens import create_token
from service.domain.person import Role
from service.domain.script import ScriptKind, sha256
from service.executors.scripted import ScriptedExecutor, exits
from service.web.app import create_app
from tests.support.world import World, local_nodes
from tests.web.api import Api, problem

COMMAND = """\
ctr -n k8s.io t ls --format {{.ID}} #7
echo "state: up" | tr '\\n' ' ' >*.log
\tcat <<-EOF
\t%x *y &z @now `date` {{ node }}
\tEOF
"""
CURE = f"""\
schema: 1
name: odd
title: Odd shell
owner: tests
description: For a test.
params:
  note: {{type: string, description: A note., default: ''}}
steps:
  - id: look
    title: Look
    timeout: 1m
    check: |
      {COMMAND.rstrip().replace(chr(10), chr(10) + "      ")}
    run: act
    verify: look
"""
UNSAFE = "It holds a control character such as a carriage return; only tab and line feed may be in it."
WAY_OUT = "Write true or false, without quotes."
BAD = {
    "tab.yaml": "name: tab\n\tx: y\n",
    "two.yaml": "a: 1\n---\nb: 2\n",
    "switch.yaml": CURE.replace("name: odd", "name: switch").replace("run: act", "run: act\n    reboots: ON"),
}


@pytest.fixture
def executor() -> ScriptedExecutor:
    return ScriptedExecutor(
        {
            ("gpu-01", "look", ScriptKind.CHECK): [exits(0, targets=["it"])],
            ("gpu-01", "look", ScriptKind.RUN): [exits(0)],
            ("gpu-01", "look", ScriptKind.VERIFY): [exits(0)],
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "runbooks"
    made.mkdir()
    (made / "odd.yaml").write_text(CURE)
    for name, text in BAD.items():
        (made / name).write_text(text)
    return made


@pytest.fixture
def world(tmp_path: Path, folder: Path, executor: ScriptedExecutor) -> Iterator[World]:
    url = f"sqlite:///{tmp_path}/unstick.db"
    built = World.build(url, executor, inventory=local_nodes("gpu-01"), runbooks=folder)
    yield built
    built.close()


@pytest.fixture
def api(world: World) -> Api:
    roles = (Role.VIEWER, Role.OPERATOR)
    tokens = {
        role: create_token(world.service, role, roles=frozenset({role}), person=role, by="test") for role in roles
    }
    return Api(create_app(world.service), tokens)


def test_bad_files_are_listed_with_line_and_way_out_beside_what_is_offered(api: Api, folder: Path) -> None:
    shown = api.get("/runbooks").json()

    assert [one["name"] for one in shown["items"]] == ["odd"]
    assert shown["refused"] == [
        {
            "file": f"{folder}/switch.yaml",
            "reason": f"{folder}/switch.yaml:19: Step look: `reboots` is 'ON', not true or false. {WAY_OUT}",
        },
        {
            "file": f"{folder}/tab.yaml",
            "reason": f"{folder}/tab.yaml:2: A tab stands where YAML wants spaces. Indent with spaces.",
        },
        {
            "file": f"{folder}/two.yaml",
            "reason": f"{folder}/two.yaml:2: A second document begins here. Write one document in each file.",
        },
    ]


def test_a_bad_one_is_refused_with_its_line_and_the_good_one_runs(api: Api, world: World, folder: Path) -> None:
    refused = api.post("/runs", {"runbook": "tab", "nodes": ["gpu-01"]})
    run_id = api.post("/runs", {"runbook": "odd", "nodes": ["gpu-01"]}).json()["id"]
    world.settle()

    status, _, detail = problem(refused)
    assert (status, detail) == (422, f"{folder}/tab.yaml:2: A tab stands where YAML wants spaces.")
    assert refused.json()["way_out"] == "Indent with spaces."
    assert api.get(f"/runs/{run_id}").json()["nodes"][0]["verdict"] == "cured"


def test_what_a_dry_run_shows_is_to_the_byte_what_is_sent(api: Api, world: World, executor: ScriptedExecutor) -> None:
    body = {"runbook": "odd", "nodes": ["gpu-01"], "params": {"note": "it's $(here)\n{{ x }}"}}
    dry = api.post("/runs", {**body, "dry_run": True}).json()["id"]
    world.settle()
    real = api.post("/runs", body).json()["id"]
    world.settle()

    plans = [api.get(f"/runs/{run}/plan").json()["items"][0]["scripts"] for run in (dry, real)]
    texts = {script["kind"]: script["text"] for script in plans[0]}
    sent = [(order.kind, order.text) for order in executor.orders]
    assert plans[0] == plans[1]
    assert sent == [(kind, texts[kind]) for kind in ("check", "verify", "check", "run", "verify")]
    assert texts["check"].endswith(f"\n{COMMAND}")
    assert [script["sha256"] for script in plans[0]] == [sha256(script["text"]) for script in plans[0]]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"params": {"note": "one\r\ntwo"}}, f"body.params.note: {UNSAFE}"),
        ({"reason": "one\r\ntwo"}, f"body.reason: {UNSAFE}"),
        ({"params": {"note": ["one"]}}, "body.params.note: It must be text, a whole number, true or false."),
        ({"params": {"note": "x" * 4097}}, "body.params.note: It may have 4096 characters."),
    ],
)
def test_a_value_that_no_script_may_be_given_is_refused_in_one_sentence_and_nothing_is_sent(
    api: Api, executor: ScriptedExecutor, more: dict[str, object], told: str
) -> None:
    answer = api.post("/runs", {"runbook": "odd", "nodes": ["gpu-01"], **more})

    assert problem(answer) == (422, "invalid_input", told)
    assert executor.orders == []
