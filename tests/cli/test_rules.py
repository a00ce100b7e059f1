"""`unstick rules` works on files, with no service and no database; `unstick alerts` asks a running service."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from service.domain.person import Role
from tests.cli.installation import Installation, Someone, eventually

RULES = """\
sources:
  prom: {kind: alertmanager, token: prom}
  own: {kind: generic, secret_files: [own], fingerprint: item.id, status: item.status, labels: item.labels}
rules:
  - {name: others, sources: [own], when: "true", runbook: free, node: alert.labels.node}
  - {name: broken, when: alert.labels.team == "gpu", runbook: free, node: alert.labels.node}
  - name: hangs
    when: alert.labels.alertname == "Hangs"
    runbook: confirm
    node: alert.labels.instance
    params: {run_exit: {cel: int(alert.labels.code)}}
    waive: [touch]
  - {name: late, when: "true", runbook: look, node: alert.labels.instance, dry_run: true}
"""


def alert(status: str = "firing", **labels: str) -> dict[str, object]:
    at = "2026-03-01T09:00:00Z"
    return {"status": status, "labels": labels, "annotations": {}, "startsAt": at, "fingerprint": labels["instance"]}


def group(*alerts: object) -> str:
    return json.dumps({"version": "4", "status": "firing", "alerts": alerts, "truncatedAlerts": 3})


HANGS = alert(alertname="Hangs", instance="n00:9400", code="7")


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    made = Installation(tmp_path / "place")
    (made.folder / "config" / "rules.yaml").write_text(RULES)
    return made


def test_lint_exits_0_for_good_rules_and_1_with_file_line_and_way_out_for_others(place: Installation) -> None:
    good = place("rules", "lint")
    bad = place.folder / "bad.yaml"
    bad.write_text(RULES.replace("waive: [touch]", "waive: [tuch]"))
    refused = place("rules", "lint", "bad.yaml")

    assert (good.returncode, good.stdout, good.stderr) == (0, "", "config/rules.yaml: 0 errors, 0 warnings\n")
    assert (refused.returncode, refused.stdout) == (
        1,
        "bad.yaml:12: Rule hangs: The runbook confirm has no step `tuch` to waive. Do you mean `touch`?\n",
    )
    assert place("rules", "lint", "absent.yaml").stdout.startswith("absent.yaml:1: The file cannot be read: ")


def test_a_payload_is_explained_rule_by_rule_and_nothing_is_touched(place: Installation) -> None:
    before = sorted(place.folder.rglob("*"))
    resolved = alert("resolved", alertname="Hangs", instance="n01")

    done = place("rules", "test", "--source", "prom", answer=group(HANGS, resolved, {"labels": {}}))

    assert done.returncode == 0, done.stderr
    left_out, aside, *lines = done.stdout.splitlines()
    assert left_out == "The sender has left out 3 alerts."
    assert aside.startswith("alert 2 is set aside: ")
    assert lines[:11] == [
        "alert Hangs (firing since 2026-03-01 09:00:00 UTC, fingerprint n00:9400)",
        "  rule others: It is for alerts of own, not of prom.",
        '  rule broken: The condition `alert.labels.team == "gpu"` cannot be evaluated: there is no team.',
        "  rule hangs: it matches, and decides",
        "  rule late: it matches too, and comes later",
        "  node n00 (by name)",
        "  runbook confirm",
        "  run_exit = 7",
        "  verify_exit = 0",
        "  check_exit = 0",
        "  wait = ",
    ]
    assert lines[11].startswith("  plan digest ")
    assert lines[12:15] == [
        "  waived gates: touch",
        "",
        "alert Hangs (resolved since 2026-03-01 09:00:00 UTC, fingerprint n01)",
    ]
    assert lines[-1] == "  starts nothing: It is resolved: it starts nothing, and ends what has not begun to act."
    assert sorted(place.folder.rglob("*")) == before


def test_the_digest_is_that_of_the_plan(place: Installation) -> None:
    explained = json.loads(place("rules", "test", "--source", "prom", "--json", answer=group(HANGS)).stdout)
    planned = json.loads(place("plan", "confirm", "--node", "n00", "--param", "run_exit=7", "--json").stdout)

    (one,) = explained["alerts"]
    assert (one["rule"], one["node"], one["digest"], one["waived"]) == ("hangs", "n00", planned["digest"], ["touch"])


def test_what_would_start_nothing_says_why(place: Installation) -> None:
    unknown = alert(alertname="Hangs", instance="n99")
    no_number = alert(alertname="Hangs", instance="n00", code="x")
    too_much = alert(alertname="Hangs", instance="n01", code="100")

    payload = group(unknown, no_number, too_much)
    found = json.loads(place("rules", "test", "--source", "prom", "--json", answer=payload).stdout)["alerts"]

    assert [(one["rule"], one["starts"], one["digest"]) for one in found] == [("hangs", False, None)] * 3
    no_value = "The parameter run_exit has no value: The condition `int(alert.labels.code)` cannot be evaluated: "
    assert found[0]["reason"] == "The inventory knows no node whose name is 'n99'."
    assert found[1]["reason"].startswith(no_value)
    assert found[2]["reason"] == "run_exit is 100. It may be at most 99."


@pytest.mark.parametrize(
    ("arguments", "payload", "words"),
    [
        (("--source", "nobody"), "{}", "There is no source nobody.\nThe sources are: prom, own, sweep.\n"),
        (("--source", "prom"), '{"version": "3"}', "This is not version 4 of Alertmanager's webhook"),
        (("--source", "prom", "--header", "x"), "{}", "--header x has no value."),
    ],
)
def test_what_cannot_be_explained_exits_2_with_a_reason(
    place: Installation, arguments: tuple[str, ...], payload: str, words: str
) -> None:
    done = place("rules", "test", *arguments, answer=payload)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(words)


def test_schema_prints_that_of_rules(place: Installation) -> None:
    assert json.loads(place("schema", "--rules").stdout)["title"] == "Rules of unstick"


def test_a_wrong_file_of_rules_is_told_at_start(place: Installation) -> None:
    (place.folder / "config" / "rules.yaml").write_text("rules: [")

    done = place("serve")

    assert (done.returncode, done.stdout) == (2, "")
    assert "config/rules.yaml:1: " in done.stderr


def test_an_alert_is_delivered_judged_listed_and_played_again(place: Installation) -> None:
    with place.serving() as serving:
        ann = Someone(place, serving.url, place.token("ann", Role.OPERATOR))
        bearer = {"Authorization": f"Bearer {place.token('prom', Role.SOURCE)}"}
        answer = httpx.post(f"{serving.url}/webhooks/prom", content=group(HANGS), headers=bearer, trust_env=False)
        eventually(lambda: json.loads(ann("alerts", "--json").stdout)["items"][0]["verdict"] is not None)
        listed = ann("alerts")
        (one,) = json.loads(ann("alerts", "--json").stdout)["items"]
        shown = ann("alerts", one["id"])
        replayed = ann("alerts", one["id"], "--replay")
        now = {"startsAt": datetime.now(UTC).isoformat()}
        fresh = group(alert(alertname="Hangs", instance="n02", code="0") | now)
        httpx.post(f"{serving.url}/webhooks/prom", content=fresh, headers=bearer, trust_env=False)
        eventually(lambda: ann.latest("n02").get("state") == "succeeded")
        started = ann("show", ann.latest("n02")["id"])
        tested = place("rules", "backtest", "--since", "1d", "--json")

    assert answer.status_code == 202
    assert (one["verdict"], one["rule"], one["node"]) == ("stale", "hangs", "n00")
    received = one["received_at"][:19].split("T")
    assert listed.stdout.splitlines()[1].split()[:7] == [one["id"], *received, "prom", "Hangs", "firing", "stale"]
    assert f"  unstick alerts {one['id']} --replay" in shown.stdout
    assert replayed.stdout.startswith("run ")
    assert "\nstarted by the rule hangs\n" in started.stdout
    assert "  touch  confirm  waived  rule hangs   " in started.stdout
    again = json.loads(tested.stdout)["alerts"][0]
    assert (again["verdict"], again["was"], again["reason"]) == ("stale", "stale", one["reason"])


def test_backtest_needs_a_database_and_a_time(place: Installation) -> None:
    no_database = place("rules", "backtest")
    no_time = place("rules", "backtest", "--since", "yesterday")

    assert (no_database.returncode, no_database.stderr.split(".")[0]) == (
        2,
        f"There is no database at {place.database.resolve()}".split(".")[0],
    )
    assert (no_time.returncode, no_time.stderr.splitlines()[0]) == (2, "'yesterday' is no time.")


def test_doctor_looks_at_rules_and_at_the_secret_of_each_source(place: Installation) -> None:
    without = place("doctor")
    secret = place.folder / "config" / "own"
    secret.write_text("whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode())
    secret.chmod(0o644)
    readable = place("doctor")
    secret.chmod(0o600)
    good = place("doctor")

    rules = "config/rules.yaml: 4 rules, 2 sources of alerts"
    assert [rules in done.stdout for done in (without, readable, good)] == [True, True, True]
    assert "The source own of alerts: " in without.stdout
    assert "config/own, then the secret with an editor.\n" in without.stdout
    assert "config/own, which proves alerts." in readable.stdout
    assert "config/own" not in good.stdout
