"""The Alertmanager file is one that amtool accepts and routes as it says; dashboard and rules ask for what there is."""

import json
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.executors.scripted import ScriptedExecutor
from service.web.metrics import Metrics
from tests.monitoring.collector import SCRIPT
from tests.monitoring.promtool import MONITORING, RULES, alert_rules, need
from tests.support.world import World, local_nodes

ALERTMANAGER = MONITORING / "alertmanager" / "alertmanager.yaml"
DASHBOARD = MONITORING / "grafana" / "unstick-dashboard.json"
EXAMPLE = MONITORING.parents[1] / "config" / "rules.example.yaml"


def amtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    need("amtool", "prometheus-alertmanager")
    return subprocess.run(["amtool", *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_amtool_accepts_the_file() -> None:
    said = amtool("check-config", str(ALERTMANAGER))

    assert (said.returncode, "SUCCESS" in said.stdout) == (0, True)


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        (("alertname=GpuGhostVram", "unstick=node", "node=gpu-01"), "unstick,people"),
        (("alertname=UnstickDown", "unstick=service"), "people"),
        (("alertname=DiskFull", "instance=web-01"), "people"),
    ],
)
def test_faults_of_nodes_go_to_unstick_and_what_concerns_itself_to_people_alone(
    labels: tuple[str, ...], receivers: str
) -> None:
    said = amtool("config", "routes", "test", f"--config.file={ALERTMANAGER}", *labels)

    assert (said.returncode, said.stdout.strip()) == (0, receivers)


def test_unstick_is_told_what_is_resolved_by_a_token_from_a_file() -> None:
    receivers = {each["name"]: each for each in yaml.safe_load(ALERTMANAGER.read_text())["receivers"]}

    assert receivers["unstick"]["webhook_configs"] == [
        {
            "url": "http://127.0.0.1:8000/webhooks/prom",
            "send_resolved": True,
            "http_config": {
                "authorization": {"type": "Bearer", "credentials_file": "/etc/prometheus/unstick-source.token"},
                "follow_redirects": False,
            },
        }
    ]


def test_every_alert_goes_somewhere_and_the_example_rules_name_alerts_that_there_are() -> None:
    rules = alert_rules()
    named = set(re.findall(r'"(\w+)"', " ".join(re.findall(r"alertname (?:==|in) (.*)", EXAMPLE.read_text()))))

    assert {rule["labels"]["unstick"] for rule in rules.values()} == {"node", "service"}
    assert {"GpuGhostVram", "FuseRequestsStuck", "GpuPhantomUtilisation", "RemoveIpcWithoutLinger"} <= named & set(
        rules
    )


@pytest.fixture
def served(tmp_path: Path) -> set[str]:
    """Give the names that /metrics of the service has."""
    world = World.build(f"sqlite:///{tmp_path}/unstick.db", ScriptedExecutor({}), inventory=local_nodes("gpu-01"))
    metrics = Metrics(world.service)
    metrics.count(method="GET", route="/metrics", status=200, seconds=0.1)
    text = metrics.render().decode()
    world.close()
    return set(re.findall(r"^(?:# HELP )?(unstick_\w+)", text, re.MULTILINE))


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def test_every_metric_of_the_dashboard_is_one_that_the_service_has(served: set[str]) -> None:
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    asked = {name for text in [*expressions(), json.dumps(variables)] for name in re.findall(r"\bunstick_\w+", text)}

    assert len(asked) >= 8
    assert asked - served == set()


def test_every_metric_of_the_rules_is_one_that_the_service_or_the_collector_has(served: set[str]) -> None:
    collected = {f"unstick_node_{name}" for name in re.findall(r"^ *gauge (\w+)", SCRIPT.read_text(), re.MULTILINE)}
    rules = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    asked = {name for text in rules for name in re.findall(r"(?<![:\w])unstick_\w+(?![:\w])", text)}

    assert len(asked) >= 12
    assert asked - served - collected == set()


def test_every_panel_has_a_title_a_unit_and_a_place_of_its_own() -> None:
    found = panels()
    units = {panel["title"]: panel["fieldConfig"]["defaults"]["unit"] for panel in found}
    squares = [
        (x, y)
        for place in (panel["gridPos"] for panel in found)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert all(panel["title"] and panel["targets"] for panel in found)
    assert set(units.values()) == {"short", "reqps", "s"}
    assert len({panel["id"] for panel in found}) == len(found)
    assert len(set(squares)) == len(squares)


def test_prometheus_reads_every_question_of_the_dashboard(tmp_path: Path) -> None:
    need("promtool", "prometheus")
    asked = [text.replace("$__rate_interval", "5m").replace("$instance", ".*") for text in expressions()]
    rules = [{"record": f"asked:{number}", "expr": text} for number, text in enumerate(asked)]
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    said = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)

    assert (said.returncode, f"SUCCESS: {len(asked)} rules found" in said.stdout) == (0, True), said.stderr


def test_prometheus_accepts_the_settings_that_the_page_shows(tmp_path: Path) -> None:
    need("promtool", "prometheus")
    page = (MONITORING.parent / "monitoring.md").read_text()
    shown = re.search(r"^    rule_files:.*?(?=^    promtool)", page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    file = tmp_path / "prometheus.yml"
    file.write_text(textwrap.dedent(shown[0]))

    said = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", str(file)], capture_output=True, text=True, check=False
    )

    assert (said.returncode, "SUCCESS" in said.stdout) == (0, True), said.stderr


def test_the_page_names_every_alert_and_every_metric_of_the_collector() -> None:
    page = (MONITORING.parent / "monitoring.md").read_text()
    metrics = re.findall(r"^ *gauge (\w+)", SCRIPT.read_text(), re.MULTILINE)

    unnamed = {name for name in alert_rules() if f"`{name}`" not in page}
    unnamed |= {name for name in metrics if f"`{name}`" not in page} - {"tasks_uninterruptible_oldest_seconds"}
    assert unnamed == set()
