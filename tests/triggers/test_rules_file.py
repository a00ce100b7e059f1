"""rules.yaml: read strictly, judged against the runbooks, read again when it changes."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
import yaml

from service.app.finding import Severity
from service.app.load_runbooks import RunbookFolder
from service.domain.alert import AlertSourceKind
from service.domain.condition import Condition, compile_condition
from service.domain.errors import ConfigInvalid
from service.domain.rule import RULE_NAMES, USUAL_ATTEMPTS, AlertSource, AttemptBudget, NodeBy, Rule, RuleSet
from service.triggers.generic import WORDS
from service.triggers.rules_file import FileRules, lint_rules, load_rules
from service.triggers.rules_schema import GenericEntry, rules_json_schema

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config" / "rules.example.yaml"
SHIPPED = RunbookFolder(ROOT / "runbooks")
GOOD = """\
sources:
  prom: {kind: alertmanager, token: prom}
  own:
    kind: generic
    secret_files: [secrets/own, /etc/unstick/old]
    alerts: body.faults
    fingerprint: item.id
    status: item.status
    labels: item.labels
rules:
  - name: stuck-fuse
    sources: [prom]
    when: alert.labels.alertname == "GpuGhostVram"
    runbook: abort-stuck-fuse
    node: alert.labels.instance
    node_by: address
    params: {hold_seconds: 60, fstype: {cel: alert.labels.fstype}}
    waive: [abort-dead]
    dedup: 2h
    cooldown: 30m
    max_age: 15m
    attempts: {most: 2, within: 24h}
    dry_run: true
  - {name: rest, when: "true", runbook: node-facts, node: alert.labels.instance}
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    path = tmp_path / "rules.yaml"

    def replaced(text: str) -> Path:
        # Another inode each time: two writes within one tick of the clock are two files all the same.
        new = tmp_path / "new"
        new.write_text(text, encoding="utf-8")
        new.replace(path)
        return path

    return replaced


def of_alert(text: str) -> Condition:
    return compile_condition(text, RULE_NAMES)


def test_the_file_becomes_sources_and_rules_in_its_order(write: Write, tmp_path: Path) -> None:
    rules = load_rules(write(GOOD), SHIPPED)

    mapping = {
        "alerts": compile_condition("body.faults", frozenset({"body"})),
        "fingerprint": compile_condition("item.id", frozenset({"item"})),
        "status": compile_condition("item.status", frozenset({"item"})),
        "labels": compile_condition("item.labels", frozenset({"item"})),
    }
    assert rules == RuleSet(
        {
            "prom": AlertSource("prom", AlertSourceKind.ALERTMANAGER, token="prom"),
            "own": AlertSource(
                "own",
                AlertSourceKind.GENERIC,
                secret_files=(str(tmp_path / "secrets/own"), "/etc/unstick/old"),
                mapping=mapping,
            ),
        },
        (
            Rule(
                "stuck-fuse",
                of_alert('alert.labels.alertname == "GpuGhostVram"'),
                "abort-stuck-fuse",
                of_alert("alert.labels.instance"),
                node_by=NodeBy.ADDRESS,
                sources=("prom",),
                params={"hold_seconds": 60, "fstype": of_alert("alert.labels.fstype")},
                waive=("abort-dead",),
                dedup=timedelta(hours=2),
                cooldown=timedelta(minutes=30),
                max_age=timedelta(minutes=15),
                attempts=AttemptBudget(2, timedelta(hours=24)),
                dry_run=True,
            ),
            Rule("rest", of_alert("true"), "node-facts", of_alert("alert.labels.instance"), attempts=USUAL_ATTEMPTS),
        ),
    )


def test_the_example_is_true_of_the_shipped_runbooks() -> None:
    rules = load_rules(EXAMPLE, SHIPPED)

    assert lint_rules(EXAMPLE, SHIPPED) == ()
    assert {source.kind for source in rules.sources.values()} == set(AlertSourceKind)
    assert rules.rules[0].name == "stuck-fuse"


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (
            "    waive:",
            "    wiave:",
            "18: Rule stuck-fuse: `wiave` is not a key that is known here. Do you mean `waive`?",
        ),
        ("token: prom", "tokn: prom", "2: Source prom: `tokn` is not a key that is known here. Do you mean `token`?"),
        (", token: prom", "", "2: Source prom: `token` is missing. Add it."),
        (
            "kind: alertmanager",
            "kind: nagios",
            (
                "2: Source prom: `kind` is 'nagios', which is no kind of source. "
                "Write one of alertmanager, grafana, pagerduty, cloudwatch, generic."
            ),
        ),
        (
            "{kind: alertmanager, token: prom}",
            '{kind: cloudwatch, topics: ["arn:aws:s3:::x"]}',
            (
                "2: Source prom: `topics` is 'arn:aws:s3:::x'. It must match "
                "^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]{1,256}$."
            ),
        ),
        ("sources: [prom]", "sources: [porm]", "12: Rule stuck-fuse: There is no source `porm`. Do you mean `prom`?"),
        (
            'alertname == "GpuGhostVram"',
            "alertname = 1",
            (
                "13: Rule stuck-fuse: `alert.labels.alertname = 1` is not a CEL expression near character 24. "
                "Write one such as `params.unmount`."
            ),
        ),
        (
            "node: alert.labels.instance\n    node_by",
            "node: labels.instance\n    node_by",
            "15: Rule stuck-fuse: `labels.instance` uses labels. The names here are alert.",
        ),
        (
            "node: alert.labels.instance\n    node_by",
            "node: alert.label.instance\n    node_by",
            "15: Rule stuck-fuse: `node` asks for alert.label, which no alert has. Do you mean `labels`?",
        ),
        (
            "fstype: {cel: alert.labels.fstype}",
            "fstype: {cel: alert.instance}",
            (
                "17: Rule stuck-fuse: `cel` asks for alert.instance, which no alert has. "
                "There are labels, annotations, status, source, fingerprint, starts_at, link."
            ),
        ),
        (
            "fstype: {cel: alert.labels.fstype}",
            "fstype: {sel: alert.labels.fstype}",
            (
                "17: Rule stuck-fuse: `fstype` is a mapping. "
                "Write a value, or {cel: EXPRESSION} such as {cel: alert.labels.gpu}."
            ),
        ),
        (
            "runbook: abort-stuck-fuse",
            "runbook: abort-stuck-fsue",
            "14: Rule stuck-fuse: There is no runbook `abort-stuck-fsue`. Do you mean `abort-stuck-fuse`?",
        ),
        (
            "hold_seconds: 60",
            "hold_second: 60",
            "17: Rule stuck-fuse: The runbook abort-stuck-fuse has no parameter `hold_second`. Do",
        ),
        (
            "hold_seconds: 60",
            "hold_seconds: 0",
            "17: Rule stuck-fuse: `hold_seconds` does not fit: hold_seconds is 0. It must be at least 3.",
        ),
        (
            "waive: [abort-dead]",
            "waive: [abort-ded]",
            "18: Rule stuck-fuse: The runbook abort-stuck-fuse has no step `abort-ded` to waive. Do you",
        ),
        (
            "waive: [abort-dead]",
            "waive: [abort-hung]",
            (
                "18: Rule stuck-fuse: The gate of step `abort-hung` of abort-stuck-fuse can never be waived. "
                "Take it out: a person must answer it."
            ),
        ),
        ("dedup: 2h", "dedup: 0s", "19: Rule stuck-fuse: `dedup` is no time at all. Write 30s, 5m or 2h."),
        ("dedup: 2h", "dedup: 2", "19: Rule stuck-fuse: `dedup` is the number 2, which is not a duration. Write"),
        ("most: 2", "most: 0", "22: Rule stuck-fuse: `most` is the number 0; it must be greater than or equal to 1."),
        (
            "node_by: address",
            "node_by: ip",
            "16: Rule stuck-fuse: `node_by` is 'ip'. Write name, address, instance, k8s_name or slurm_name.",
        ),
        ("name: rest", "name: stuck-fuse", "24: Rule stuck-fuse: `name` is that of the rule in line 11 too. Choose"),
        ('when: "true"', "when: true", "24: Rule rest: `when` is true, not text. Put it in quotes."),
        ("dry_run: true", "dry_run:", "23: Rule stuck-fuse: `dry_run` is empty. Give it a value, or remove the key."),
        ("status: item.status", "status: body.status", "8: Source own: `body.status` uses body. The names here are"),
        (
            "secret_files: [secrets/own, /etc/unstick/old]",
            "secret_files: [a, b, c]",
            "5: Source own: `secret_files` is a list; list should have at most 2 items after validation, not 3.",
        ),
        (
            "    secret_files: [secrets/own, /etc/unstick/old]\n",
            "",
            "3: Source own: it has no proof of its sender. Write `secret_files`, or `token` for a sender that",
        ),
        (
            "    secret_files: [secrets/own, /etc/unstick/old]\n",
            "    secret_files: [secrets/own]\n    token: own\n",
            "3: Source own: it has two proofs of its sender.",
        ),
        ("rules:\n", "rulez:\n", "10: `rulez` is not a key that is known here. Do you mean `rules`?"),
        ("  - name: stuck-fuse", "  - &a stuck-fuse", "11: `&a` is an anchor. Anchors are not accepted."),
    ],
)
def test_a_fault_is_told_with_its_line_and_the_way_out(write: Write, old: str, new: str, finding: str) -> None:
    assert GOOD.count(old) == 1
    path = write(GOOD.replace(old, new))

    found = [str(one) for one in lint_rules(path, SHIPPED)]

    assert [one for one in found if one.startswith(f"{path}:{finding}")], "\n".join(found)
    with pytest.raises(ConfigInvalid):
        load_rules(path, SHIPPED)


def test_a_waived_step_that_has_no_gate_is_a_warning_and_the_file_is_used(write: Write) -> None:
    path = write(
        GOOD.replace("waive: [abort-dead]", "waive: [evidence]").replace('when: "true"', "when: alert.source == 'prom'")
    )

    assert [(one.line, one.severity) for one in lint_rules(path, SHIPPED)] == [(18, Severity.WARNING)]
    assert load_rules(path, SHIPPED).rules[0].waive == ("evidence",)


@pytest.mark.parametrize(("more", "warned"), [("", True), (", dry_run: true", False)])
def test_a_rule_that_answers_every_alert_of_everybody_is_a_warning_unless_it_only_looks(
    write: Write, more: str, *, warned: bool
) -> None:
    path = write(f'rules: [{{name: rest, when: "true", runbook: node-facts, node: alert.source{more}}}]\n')

    said = "Rule rest: `when` asks nothing of the alert, so this rule answers every alert of every source."
    assert [one.reason for one in lint_rules(path, SHIPPED)] == [said] * warned
    assert load_rules(path, SHIPPED).rules[0].name == "rest"


def test_a_runbook_with_faults_of_its_own_is_told(write: Write, tmp_path: Path) -> None:
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "node-facts.yaml").write_text("schema: 1\n")
    path = write('rules: [{name: rest, when: alert.fingerprint != "", runbook: node-facts, node: alert.source}]\n')

    (finding,) = lint_rules(path, RunbookFolder(tmp_path / "runbooks"))

    assert str(finding).startswith(f"{path}:1: Rule rest: The runbook `node-facts` has faults of its own: ")


def test_a_parameter_that_must_be_given_is_asked_for(write: Write, tmp_path: Path) -> None:
    text = (ROOT / "runbooks" / "node-facts.yaml").read_text()
    needy = text.replace("    default: 20\n", "")
    assert needy != text
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "node-facts.yaml").write_text(needy)
    path = write('rules: [{name: rest, when: alert.fingerprint != "", runbook: node-facts, node: alert.source}]\n')

    (finding,) = lint_rules(path, RunbookFolder(tmp_path / "runbooks"))

    assert finding.reason == "Rule rest: The runbook node-facts must be given a value of `threads`."


@pytest.mark.parametrize(
    "content", [b"\xff", b"\xff\xfer\0", b"", b"- a\n", b"rules: [\n", b"a: 1\n---\nb: 2\n", b"null\n"]
)
def test_what_is_no_such_file_at_all_is_one_finding_with_a_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(content)

    (finding,) = lint_rules(path, SHIPPED)

    assert finding.line >= 1


def test_a_file_that_is_not_there_is_a_finding_of_lint_and_no_rules_for_the_service(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    rules = FileRules(path, SHIPPED)

    assert [one.reason for one in lint_rules(path, SHIPPED)] == ["The file cannot be read: No such file or directory."]
    assert (rules.current(), rules.problem) == (RuleSet(), None)


def test_a_change_is_seen_without_a_restart(write: Write) -> None:
    rules = FileRules(write(GOOD), SHIPPED)
    before = [rule.name for rule in rules.current().rules]

    write(GOOD.replace("name: rest", "name: others"))

    assert (before, [rule.name for rule in rules.current().rules]) == (["stuck-fuse", "rest"], ["stuck-fuse", "others"])


@pytest.mark.parametrize("broken", ["rules: [", GOOD.replace("abort-stuck-fuse", "no-such"), None])
def test_a_file_that_became_wrong_keeps_the_last_good_rules_and_says_so(write: Write, broken: str | None) -> None:
    path = write(GOOD)
    rules = FileRules(path, SHIPPED)
    good = rules.current()

    if broken is None:
        path.unlink()
    else:
        write(broken)
    kept, problem = rules.current(), rules.problem
    write(GOOD)

    assert kept == good
    assert problem is not None
    assert str(path) in problem.reason
    assert rules.problem is None


def test_a_file_that_was_never_good_is_refused(write: Write) -> None:
    rules = FileRules(write("rules: ["), SHIPPED)

    with pytest.raises(ConfigInvalid):
        rules.current()


def test_a_rule_that_came_before_its_runbook_is_good_once_the_runbook_is_there(write: Write, tmp_path: Path) -> None:
    folder = tmp_path / "runbooks"
    folder.mkdir()
    path = write('rules: [{name: rest, when: "true", runbook: node-facts, node: alert.source}]\n')
    rules = FileRules(path, RunbookFolder(folder))
    with pytest.raises(ConfigInvalid, match="There is no runbook `node-facts`"):
        rules.current()

    (folder / "node-facts.yaml").write_bytes((ROOT / "runbooks" / "node-facts.yaml").read_bytes())
    found = [rule.name for rule in rules.current().rules]
    (folder / "node-facts.yaml").unlink()
    problem = rules.problem

    assert found == ["rest"]
    assert problem is not None
    assert [rule.name for rule in rules.current().rules] == ["rest"]


def test_a_file_that_nobody_may_read_is_told(write: Write) -> None:
    path = write(GOOD)
    rules = FileRules(path, SHIPPED)
    good = rules.current()
    path.unlink()
    path.mkdir()

    assert rules.current() == good
    assert str(rules.problem) == f"{path} cannot be read (Is a directory). Look with `ls -l {path}`."


@pytest.mark.parametrize("text", [GOOD, EXAMPLE.read_text()])
def test_the_schema_for_editors_takes_what_is_good(text: str) -> None:
    schema = json.loads(json.dumps(rules_json_schema()))

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(text), schema)


@pytest.mark.parametrize(
    ("old", "new"), [("waive:", "wiave:"), ("dedup: 2h", "dedup: 2"), ("kind: generic", "kind: x"), ("token: prom", "")]
)
def test_the_schema_for_editors_refuses_what_is_not(old: str, new: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(GOOD.replace(old, new)), rules_json_schema())


def test_the_words_of_a_generic_source_are_those_that_are_read() -> None:
    assert {*GenericEntry.model_fields} - {"kind", "secret_files", "token"} == {*WORDS}
