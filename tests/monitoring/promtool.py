"""Plays the shipped rules with promtool: which alerts fire at which minute, and that no other does."""

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

MONITORING = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
RULES = MONITORING / "prometheus" / "unstick.rules.yaml"
LOOKS = ("fuse", "tasks", "gpu", "ipc", "runtime")
#: Series: a name with its labels, and its values a minute apart in promtool's notation.
Series = Mapping[str, str]
Labels = dict[str, str]


def need(program: str, package: str) -> None:
    """Skip the test where a program is missing, and say so."""
    if shutil.which(program) is None:
        pytest.skip(f"needs {program} (Debian: {package})")


@cache
def alert_rules() -> dict[str, dict[str, Any]]:
    """Return the shipped alerting rules by name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def looked(node: str, *, looks: Iterable[str] = LOOKS, until: int = 120) -> Series:
    """Return a collector on a node that looks well, and writes its file each minute until UNTIL."""
    series = {f"unstick_node_look_success{{{_at(node)},look='{look}'}}": "1+0x120" for look in looks}
    written = f"0+60x{until}" + (f" {60 * until}+0x{120 - until}" if until < 120 else "")
    return {
        **series,
        f"unstick_node_collector_success{{{_at(node)}}}": "1+0x120",
        f"unstick_node_collector_last_run_timestamp_seconds{{{_at(node)}}}": written,
    }


def gpu(
    node: str, number: int, *, live: str = "0+0x120", dying: str = "0+0x120", more: str = "", **fields: str
) -> Series:
    """Return one GPU: who holds it, by the collector, and fields of DCGM without their prefix."""
    device, labels = (
        f"nvidia{number}",
        f"node='{node}',instance='{node}:9400',gpu='{number}',UUID='GPU-{node}-{number}'",
    )
    holders = {
        f"unstick_node_gpu_holders{{{_at(node)},device='{device}',state='{state}'}}": values
        for state, values in (("live", live), ("dying", dying))
    }
    dcgm = {f"DCGM_FI_{name}{{{labels},device='{device}'{more}}}": values for name, values in fields.items()}
    return {**holders, **dcgm}


def seen(node: str, name: str, values: str, **labels: str) -> Series:
    """Return one more metric of the collector on a node."""
    more = "".join(f",{label}='{value}'" for label, value in labels.items())
    return {f"unstick_node_{name}{{{_at(node)}{more}}}": values}


def alert(name: str, summary: str, /, *, description: str = "", **labels: str) -> tuple[str, Labels, Labels]:
    """Return an alert as it is expected: its own labels and words, and what its rule says the same each time."""
    rule = alert_rules()[name]
    fixed = {"runbook": rule["annotations"]["runbook"]} if "runbook" in rule["annotations"] else {}
    told = {"description": description} if description else {}
    return name, {**rule["labels"], **labels}, {"summary": summary, **told, **fixed}


def fires(folder: Path, *expected: tuple[str, Labels, Labels], at: int, series: Series) -> None:
    """Fail unless exactly these alerts fire at a minute."""
    _play(folder, series, [_expect(name, at, expected) for name in alert_rules()])


def never_fires(folder: Path, series: Series, *, but: Iterable[str] = (), until: int = 60) -> None:
    """Fail when an alert fires at any fifth minute."""
    names = [name for name in alert_rules() if name not in but]
    _play(folder, series, [_expect(name, at, ()) for name in names for at in range(5, until + 1, 5)])


def _at(node: str) -> str:
    return f"node='{node}',instance='{node}:9100'"


def _expect(name: str, at: int, expected: Iterable[tuple[str, Labels, Labels]]) -> dict[str, Any]:
    alerts = [{"exp_labels": labels, "exp_annotations": words} for of, labels, words in expected if of == name]
    return {"eval_time": f"{at}m", "alertname": name, "exp_alerts": alerts}


def _play(folder: Path, series: Series, tests: list[dict[str, Any]]) -> None:
    need("promtool", "prometheus")
    given = {"up{job='unstick',instance='unstick:8000'}": "1+0x120", **series}
    rows = [{"series": name, "values": values} for name, values in given.items()]
    group = {"interval": "1m", "input_series": rows, "alert_rule_test": tests}
    file = folder / "rules.test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "2m", "tests": [group]}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
