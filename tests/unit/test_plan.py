"""A plan holds every script as it would be sent, and its digest covers every byte that could matter."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from service.domain.errors import Conflict, InvalidInput
from service.domain.node import Confine, Controller, Endpoint, ExecutorKind, Inventory, Node
from service.domain.plan import Plan, check_params, gate_digest, make_plan, param_text
from service.domain.runbook import Param, ParamType, ParamValue, Runbook, Step, Where
from service.domain.script import ScriptKind, render, sha256

ENDPOINT = Endpoint("gpu-01", ExecutorKind.LOCAL, "gpu-01")
NODE = Node("gpu-01", ENDPOINT, controller="k8s-a", attributes={"k8s_name": "gpu-01.a", "other": "x"})
CONTROLLER = Controller("k8s-a", ENDPOINT, {"KUBECONFIG": "/etc/a"})
INVENTORY = Inventory({"gpu-01": NODE}, {"k8s-a": CONTROLLER})
MINUTE = timedelta(minutes=1)
RUNBOOK = Runbook(
    "cure",
    "A cure",
    "gpu-oncall",
    "What it is for.",
    (
        Step("act", "Act", MINUTE, check="look", run="do", verify="ask"),
        Step("drain", "Drain", MINUTE, verify="kubectl", where=Where.CONTROLLER),
    ),
    file_sha256="f" * 64,
    needs=("k8s_name",),
    params=(Param("mode", ParamType.STRING, "How.", default="soft"), Param("hard", ParamType.BOOLEAN, "Really.")),
    prelude="shopt -s inherit_errexit\n",
)
PARAMS: Mapping[str, ParamValue] = {"mode": "it's $(reboot)", "hard": True}


def plan(
    runbook: Runbook = RUNBOOK,
    *,
    nodes: tuple[Node, ...] = (NODE,),
    inventory: Inventory = INVENTORY,
    params: Mapping[str, ParamValue] = PARAMS,
    envelope: str = "e" * 64,
) -> Plan:
    return make_plan(runbook, nodes, inventory=inventory, params=params, envelope_sha256=envelope)


def test_every_script_is_rendered_whole() -> None:
    made = plan()

    exports = "export NODE_K8S_NAME=gpu-01.a\nexport NODE_NAME=gpu-01\nexport PARAM_HARD=true\n"
    mode = "export PARAM_MODE='it'\"'\"'s $(reboot)'\n"
    assert [(s.node, s.step, s.kind, s.machine) for s in made.scripts] == [
        ("gpu-01", "act", ScriptKind.CHECK, "node"),
        ("gpu-01", "act", ScriptKind.RUN, "node"),
        ("gpu-01", "act", ScriptKind.VERIFY, "node"),
        ("gpu-01", "drain", ScriptKind.VERIFY, "k8s-a"),
    ]
    assert made.script("gpu-01", "act", ScriptKind.RUN).text == (
        f"set -euo pipefail\n{exports}{mode}shopt -s inherit_errexit\ndo\n"
    )
    assert made.script("gpu-01", "drain", ScriptKind.VERIFY).text == (
        f"set -euo pipefail\nexport KUBECONFIG=/etc/a\n{exports}{mode}shopt -s inherit_errexit\nkubectl\n"
    )
    assert all(script.sha256 == sha256(script.text) for script in made.scripts)
    with pytest.raises(KeyError):
        made.script("gpu-01", "drain", ScriptKind.RUN)


def test_the_same_facts_in_another_order_give_the_same_digest() -> None:
    shuffled = Node("gpu-01", ENDPOINT, controller="k8s-a", attributes={"other": "x", "k8s_name": "gpu-01.a"})

    assert plan(params={name: PARAMS[name] for name in sorted(PARAMS)}).digest == plan().digest
    assert plan(nodes=(shuffled,)).digest == plan().digest


def _with_step(**changes: str) -> Runbook:
    return replace(RUNBOOK, steps=(replace(RUNBOOK.steps[0], **changes), RUNBOOK.steps[1]))  # type: ignore[arg-type]


OTHER_NODE = replace(NODE, name="gpu-02")
CHANGES = {
    "a byte of check": plan(_with_step(check="look ")),
    "a byte of run": plan(_with_step(run="do2")),
    "a byte of verify": plan(_with_step(verify="asc")),
    "the id of a step": plan(_with_step(id="act2")),
    "a byte of the prelude": plan(replace(RUNBOOK, prelude="shopt -s inherit_errexit\n:")),
    "a byte of the file outside its scripts": plan(replace(RUNBOOK, file_sha256="0" * 64)),
    "the name": plan(replace(RUNBOOK, name="other")),
    "a parameter": plan(params={**PARAMS, "hard": False}),
    "an attribute that is needed": plan(nodes=(replace(NODE, attributes={"k8s_name": "gpu-01.b"}),)),
    "another node": plan(nodes=(OTHER_NODE,)),
    "one more node": plan(nodes=(NODE, OTHER_NODE)),
    "a byte of the envelope": plan(envelope="d" * 64),
    "a controller's environment": plan(
        inventory=Inventory({}, {"k8s-a": replace(CONTROLLER, environment={"KUBECONFIG": "/etc/b"})})
    ),
    "where a step runs": plan(replace(RUNBOOK, steps=(RUNBOOK.steps[0], replace(RUNBOOK.steps[1], where=Where.NODE)))),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_digest_changes_with(what: str) -> None:
    assert CHANGES[what].digest != plan().digest


def test_every_change_has_a_digest_of_its_own() -> None:
    assert len({made.digest for made in CHANGES.values()}) == len(CHANGES)


def test_an_attribute_that_is_not_needed_is_not_sent() -> None:
    other = replace(NODE, attributes={"k8s_name": "gpu-01.a", "other": "y"})

    assert plan(nodes=(other,)).digest == plan().digest
    assert not any("OTHER" in script.text for script in plan().scripts)


def test_a_node_without_a_needed_attribute_is_refused() -> None:
    with pytest.raises(Conflict) as caught:
        plan(nodes=(replace(NODE, attributes={}),))

    assert str(caught.value) == (
        "Node gpu-01 lacks the attribute k8s_name, which cure needs. Add it to the node's attributes in the inventory."
    )


@pytest.mark.parametrize("controller", [None, "unknown"])
def test_a_step_for_the_controller_needs_one(controller: str | None) -> None:
    with pytest.raises(Conflict, match="Node gpu-01 has no controller, which step drain needs"):
        plan(nodes=(replace(NODE, controller=controller),))


def test_parameters_are_completed_by_their_defaults() -> None:
    assert check_params(RUNBOOK, {"hard": "true"}) == {"mode": "soft", "hard": True}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"hard": True, "soft": 1}, "cure has no parameter soft. Its parameters are: mode, hard."),
        ({}, "The parameter hard must be given. Really."),
        ({"hard": "on"}, "hard is 'on'. It may be true or false."),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(given: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_params(RUNBOOK, given)

    assert str(caught.value) == told


def test_an_approval_is_of_plan_node_step_boot_and_targets() -> None:
    given = {"plan_digest": "p", "node": "n", "step": "s", "boot_id": "b", "targets": ("t", "u")}
    changed = [{**given, key: ("t\nu",) if key == "targets" else "x"} for key in given]

    digests = {gate_digest(**values) for values in [given, *changed]}  # type: ignore[arg-type]

    assert len(digests) == len(changed) + 1
    assert gate_digest(**given) in digests  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", ["", " ", "a b", "$(touch /tmp/x)", "`id`", "'", '"', "\\", "a\nb", "{{ x }}", "é\u2028", "-n", "*", "\t"]
)
def test_a_value_comes_back_unchanged_and_nothing_of_it_runs(value: str) -> None:
    body = 'printf %s "$PARAM_X"'
    text = render(prelude="", body=body, environment={"PARAM_X": param_text(value)})

    said = subprocess.run(["bash"], input=text.encode(), capture_output=True, check=True)

    assert (said.stdout, said.stderr) == (value.encode(), b"")


def test_a_plan_says_where_looks_are_not_confined_and_its_digest_stays() -> None:
    loose = replace(NODE, endpoint=replace(ENDPOINT, confine=Confine.OFF))

    made = plan(nodes=(loose,))

    assert made.unconfined == ("gpu-01: the inventory says confine: off",)
    assert made.digest == plan().digest
    assert plan().unconfined == ()
