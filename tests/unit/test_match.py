"""Which rule answers an alert, on which node, with which parameters; and why not."""

from datetime import UTC, datetime

import pytest

from service.domain.alert import Alert, AlertStatus
from service.domain.condition import compile_condition
from service.domain.match import RuleAnswer, Wanted, answer, facts_of, first_match, wanted
from service.domain.node import Endpoint, ExecutorKind, Inventory, Node
from service.domain.rule import RULE_NAMES, NodeBy, Rule
from service.domain.runbook import ParamValue

AT = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
ALERT = Alert("f1", AlertStatus.FIRING, AT, labels={"alertname": "GpuGhostVram", "instance": "gpu-17:9400", "gpu": "3"})
FACTS = facts_of(ALERT, source="prom")


def rule(name: str, when: str = "true", *, node: str = "alert.labels.instance", **more: object) -> Rule:
    given = {"runbook": "abort-stuck-fuse", **more}
    return Rule(name, compile_condition(when, RULE_NAMES), node=compile_condition(node, RULE_NAMES), **given)  # type: ignore[arg-type]


def inventory(*names: str, address: str = "") -> Inventory:
    return Inventory({n: Node(n, Endpoint(n, ExecutorKind.SSH, address or n)) for n in names}, {})


def test_the_first_rule_that_matches_decides() -> None:
    rules = (
        rule("of-others", sources=("graf",)),
        rule("false", "alert.labels.alertname == 'Other'"),
        rule("broken", "alert.labels.nodename == 'gpu-17'"),
        rule("right", "alert.labels.alertname == 'GpuGhostVram' && alert.status == 'firing'"),
        rule("late"),
    )

    assert [answer(one, FACTS, source="prom") for one in rules] == [
        RuleAnswer("of-others", False, "It is for alerts of graf, not of prom."),
        RuleAnswer("false", False, "`alert.labels.alertname == 'Other'` is false."),
        RuleAnswer(
            "broken",
            False,
            "The condition `alert.labels.nodename == 'gpu-17'` cannot be evaluated: there is no nodename.",
        ),
        RuleAnswer("right", True),
        RuleAnswer("late", True),
    ]
    assert first_match(rules, FACTS, source="prom") == rules[3]
    assert first_match(rules[:3], FACTS, source="prom") is None


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ("alert.labels.gpu", "The condition `alert.labels.gpu` gives a value of type string, not true or false."),
        ("alert.labels.gpu > 2", "The condition `alert.labels.gpu > 2` cannot be evaluated: string and int do not go"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_matches_nothing_and_says_why(when: str, reason: str) -> None:
    said = answer(rule("broken", when), FACTS, source="prom")

    assert (said.matches, said.reason.startswith(reason)) == (False, True)


def test_a_node_is_found_without_its_port() -> None:
    assert wanted(rule("r"), FACTS, inventory("gpu-17", "gpu-18")) == Wanted("gpu-17")


@pytest.mark.parametrize(
    ("node", "by", "reason"),
    [
        ("alert.labels.instance", NodeBy.NAME, "The inventory knows no node whose name is 'gpu-17:9400'."),
        ("'10.0.0.1'", NodeBy.ADDRESS, "'10.0.0.1' means several nodes by their address: gpu-01, gpu-02."),
        ("alert.labels.host", NodeBy.NAME, "The rule r finds no node: The condition `alert.labels.host` cannot be"),
        ("1", NodeBy.NAME, "The rule r finds no node: The expression `1` gives a value of type int, not text."),
        ("''", NodeBy.K8S_NAME, "The inventory knows no node whose k8s name is ''."),
    ],
)
def test_an_unknown_or_ambiguous_node_is_none_and_the_reason_is_told(node: str, by: NodeBy, reason: str) -> None:
    found = wanted(rule("r", node=node, node_by=by), FACTS, inventory("gpu-01", "gpu-02", address="10.0.0.1"))

    assert found.node is None
    assert found.reason.startswith(reason)


def test_parameters_are_literal_or_of_the_alert() -> None:
    gpu = compile_condition("int(alert.labels.gpu)", RULE_NAMES)
    params: dict[str, ParamValue | object] = {"hold_seconds": 60, "gpu": gpu, "quick": True}

    assert wanted(rule("r", params=params), FACTS, inventory("gpu-17")) == Wanted(
        "gpu-17", {"hold_seconds": 60, "gpu": 3, "quick": True}
    )


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("alert.labels.uuid", "The parameter gpu has no value: The condition `alert.labels.uuid` cannot be evaluated:"),
        ("alert.labels", "The parameter gpu would be neither text, a whole number, true nor false."),
        ("1.5", "The parameter gpu would be neither text, a whole number, true nor false."),
        ("null", "The parameter gpu would be neither text, a whole number, true nor false."),
    ],
)
def test_a_parameter_without_a_value_leaves_the_node_alone(expression: str, reason: str) -> None:
    found = wanted(rule("r", params={"gpu": compile_condition(expression, RULE_NAMES)}), FACTS, inventory("gpu-17"))

    assert (found.node, dict(found.params)) == ("gpu-17", {})
    assert found.reason.startswith(reason)
