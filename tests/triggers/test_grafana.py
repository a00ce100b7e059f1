"""Grafana's groups are read as Alertmanager's are; its alerts about itself stay what they say."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from service.domain.alert import Alert, AlertStatus, Parsed
from service.domain.errors import InvalidInput
from service.triggers import grafana

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def body(labels: dict[str, str], **fields: Any) -> bytes:
    alert = {
        "status": "firing",
        "labels": labels,
        "annotations": None,
        "startsAt": "2026-03-01T09:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "https://grafana.example.net/alerting/grafana/a/view",
        "fingerprint": "bb01",
        "values": None,
        "valueString": "",
        "silenceURL": "",
        "dashboardURL": "",
        "panelURL": "",
        "imageURL": None,
    }
    root = {"version": "1", "orgId": 1, "title": "[FIRING:1]", "state": "alerting", "message": "", "truncatedAlerts": 0}
    return json.dumps(root | {"alerts": [alert]} | fields).encode()


@pytest.mark.parametrize(
    "labels",
    [
        {"alertname": "DatasourceNoData", "rulename": "GhostVRAM", "datasource_uid": "ds1", "grafana_folder": "gpu"},
        {"alertname": "DatasourceError", "rulename": "GhostVRAM", "ref_id": "A"},
        {"alertname": "TestAlert", "instance": "Grafana"},
    ],
)
def test_no_data_an_error_and_a_test_are_alerts_of_their_own_name(labels: dict[str, str]) -> None:
    found = grafana.parse(body(labels), {}, now=NOW)

    start, link = datetime(2026, 3, 1, 9, 0, tzinfo=UTC), "https://grafana.example.net/alerting/grafana/a/view"
    assert found == Parsed((Alert("bb01", AlertStatus.FIRING, start, None, labels, {}, link),))


def test_a_delivery_is_named_by_its_signature() -> None:
    found = grafana.parse(body({}), {"x-grafana-alerting-signature": "c0ffee"}, now=NOW)

    assert found.delivery_key == "c0ffee"


def test_alerts_that_were_left_out_are_counted() -> None:
    assert grafana.parse(body({}, truncatedAlerts=3), {}, now=NOW).omitted == 3


@pytest.mark.parametrize("version", ["4", "0", None])
def test_another_version_is_refused(version: str | None) -> None:
    with pytest.raises(InvalidInput, match=r"This is not version 1 of Grafana's webhook"):
        grafana.parse(body({}, version=version), {}, now=NOW)
