"""What docs/alerts.md tells people to copy is true."""

import base64
import hashlib
import hmac
import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from service.app.load_runbooks import RunbookFolder
from service.domain.alert import AlertStatus, Parsed
from service.domain.rule import AlertSource
from service.triggers import generic
from service.triggers.rules_file import load_rules
from service.triggers.signatures import verify_standard

PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text(encoding="utf-8")
NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
SECRET = "whsec_" + base64.b64encode(b"n" * 32).decode()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def datadog(tmp_path_factory: pytest.TempPathFactory) -> AlertSource:
    folder = tmp_path_factory.mktemp("config")
    (folder / "rules.yaml").write_text(next(text for text in blocks("yaml") if "sources:" in text) + "rules: []\n")
    return load_rules(folder / "rules.yaml", RunbookFolder(folder)).sources["dd"]


def sent(source: AlertSource, transition: str) -> Parsed:
    (template,) = blocks("json")
    words = {"$ALERT_TRANSITION": transition, "$AGGREG_KEY": "k1", "$ALERT_CYCLE_KEY": "7", "$HOSTNAME": "gpu-07"}
    for word, value in (words | {"$DATE": "1772355600000"}).items():
        template = template.replace(word, value)
    return generic.parse(template.encode(), {}, now=NOW, mapping=source.mapping)


@pytest.mark.parametrize(
    ("transition", "status"), [("Triggered", AlertStatus.FIRING), ("Recovered", AlertStatus.RESOLVED)]
)
def test_datadogs_template_and_mapping_fit(transition: str, status: AlertStatus, datadog: AlertSource) -> None:
    (alert,) = sent(datadog, transition).alerts

    start = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
    assert (alert.fingerprint, alert.status, alert.starts_at, alert.labels["host"]) == ("k1/7", status, start, "gpu-07")


@pytest.mark.parametrize("transition", ["Re-Triggered", "No Data", "Warn"])
def test_datadogs_other_transitions_are_ignored(transition: str, datadog: AlertSource) -> None:
    assert sent(datadog, transition) == Parsed(ignored="Nothing in it is firing or resolved.")


def test_the_lines_that_sign_do_sign() -> None:
    names: dict[str, object] = {"base64": base64, "hashlib": hashlib, "hmac": hmac, "time": time}
    (lines,) = blocks("python")
    exec(compile(lines, "docs/alerts.md", "exec"), names)
    body = json.dumps({"fault": "é"}).encode()

    headers = names["headers"](body, SECRET, "msg_1")  # type: ignore[operator]

    verify_standard(body, headers, secrets=[SECRET], now=datetime.now(UTC))


def test_alertmanagers_block_is_yaml_that_sends_what_is_resolved() -> None:
    block = yaml.safe_load(next(text for text in blocks("yaml") if "receivers:" in text))

    assert block["receivers"][0]["webhook_configs"][0]["send_resolved"] is True
