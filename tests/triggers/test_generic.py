"""Any JSON becomes alerts by expressions; Datadog, whose users write the body themselves, comes in this way."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from service.domain.alert import Alert, AlertStatus, Parsed, SetAside
from service.domain.condition import Condition, compile_condition
from service.domain.errors import InvalidInput
from service.triggers import generic

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
NINE = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
HEADERS = {"webhook-id": "msg_1"}
PLAIN = {"fingerprint": "item.id", "status": "item.state", "labels": "item.labels"}
TIMED = PLAIN | {"starts_at": "item.since"}
DATADOG = {
    "fingerprint": "item.aggreg_key",
    "status": '{"Triggered": "firing", "Recovered": "resolved"}[item.transition]',
    "labels": '{"host": item.host, "scope": item.scope}',
    "starts_at": "has(item.date) ? item.date : null",
}


@cache
def compiled(word: str, text: str) -> Condition:
    return compile_condition(text, generic.WORDS[word])


def parsed(body: Any, texts: Mapping[str, str], headers: Mapping[str, str] = HEADERS) -> Parsed:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return generic.parse(raw, headers, now=NOW, mapping={word: compiled(word, text) for word, text in texts.items()})


def item(**fields: Any) -> dict[str, Any]:
    return {"id": "k1", "state": "firing", "labels": {"node": "gpu-07"}} | fields


def datadog(transition: str, key: str = "k1", host: str = "gpu-07") -> dict[str, Any]:
    return {"transition": transition, "aggreg_key": key, "host": host, "scope": "zone:z1", "date": 1772355600000}


def test_an_item_becomes_an_alert_that_begins_when_it_is_received() -> None:
    found = parsed(item(), PLAIN)

    assert found == Parsed((Alert("k1", AlertStatus.FIRING, NOW, None, {"node": "gpu-07"}),), delivery_key="msg_1")


def test_every_word_of_an_alert_can_be_given() -> None:
    texts = PLAIN | {
        "alerts": "body.faults.filter(f, f.known)",
        "starts_at": "item.since",
        "ends_at": "item.until",
        "annotations": '{"summary": item.why}',
        "link": "item.url",
    }
    times = {"since": "2026-03-01T10:00:00+01:00", "until": 1772356800}
    fault = item(state="resolved", why="x", url="https://mon.example.net/1", known=True, **times)

    found = parsed({"faults": [fault, {"known": False}]}, texts)

    end = datetime(2026, 3, 1, 9, 20, tzinfo=UTC)
    words: tuple[dict[str, str], dict[str, str]] = {"node": "gpu-07"}, {"summary": "x"}
    alert = Alert("k1", AlertStatus.RESOLVED, NINE, end, *words, "https://mon.example.net/1")
    assert found == Parsed((alert,), delivery_key="msg_1")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (1772355600, NINE),
        (1772355600000, NINE),
        (1772355600.5, datetime(2026, 3, 1, 9, 0, 0, 500000, tzinfo=UTC)),
        ("2026-03-01T09:00:00Z", NINE),
        (None, NOW),
        ("0001-01-01T00:00:00Z", NOW),
    ],
)
def test_a_moment_is_text_seconds_or_milliseconds(given: object, meant: datetime) -> None:
    found = parsed(item(since=given), PLAIN | {"starts_at": "item.since"})

    assert [alert.starts_at for alert in found.alerts] == [meant]


def test_a_moment_may_be_one_of_cel() -> None:
    found = parsed(item(since="2026-03-01T10:00:00+01:00"), PLAIN | {"starts_at": "timestamp(item.since)"})

    assert [alert.starts_at for alert in found.alerts] == [NINE]


def test_plain_values_of_labels_become_text_and_null_is_left_out() -> None:
    found = parsed(item(labels={"gpu": 3, "ecc": True, "load": 0.5, "rack": None, "empty": ""}), PLAIN)

    assert found.alerts[0].labels == {"gpu": "3", "ecc": "true", "load": "0.5"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": ""}, "`fingerprint` is missing, so that it cannot be told from another fault."),
        ({"id": 7}, "`fingerprint` is missing, so that it cannot be told from another fault."),
        ({"labels": {"a": []}}, "`labels` has a list under 'a', not a text."),
        ({"labels": "a"}, "`labels` is a text, not an object."),
        ({"since": "now"}, "`starts_at` is no moment with an offset: 'now'."),
        ({"since": True}, "`starts_at` is no moment with an offset: True."),
        ({"since": -1}, "`starts_at` is no moment: -1."),
        ({"since": 1e300}, "`starts_at` is no moment: 1e+300."),
        ({"state": "lost"}, "It is neither firing nor resolved."),
    ],
)
def test_an_item_that_cannot_be_understood_is_set_aside(fields: dict[str, Any], reason: str) -> None:
    found = parsed([item(since=None) | fields, item(since=None)], TIMED)

    assert (len(found.alerts), found.set_aside) == (1, (SetAside(0, reason),))


def test_an_item_of_which_an_expression_cannot_be_had_is_set_aside() -> None:
    found = parsed([{"id": "k1", "state": "firing"}, 7, item()], PLAIN)

    assert len(found.alerts) == 1
    assert [one.index for one in found.set_aside] == [0, 1]
    assert found.set_aside[0].reason == "The condition `item.labels` cannot be evaluated: there is no labels."


@pytest.mark.parametrize(
    ("transition", "status"), [("Triggered", AlertStatus.FIRING), ("Recovered", AlertStatus.RESOLVED)]
)
def test_datadog_fires_when_triggered_and_resolves_when_recovered(transition: str, status: AlertStatus) -> None:
    found = parsed(datadog(transition), DATADOG)

    labels = {"host": "gpu-07", "scope": "zone:z1"}
    assert found == Parsed((Alert("k1", status, NINE, None, labels),), delivery_key="msg_1")


def test_datadogs_other_transitions_are_neither_and_its_empty_host_is_no_label() -> None:
    texts = DATADOG | {
        "status": 'item.transition == "Triggered" ? "firing" : item.transition == "Recovered" ? "resolved" : "neither"'
    }
    transitions = ["Triggered", "Re-Triggered", "No Data", "Warn"]

    found = parsed([*map(datadog, transitions), datadog("Triggered", "k2", host="")], texts)

    assert [(alert.fingerprint, alert.labels.get("host")) for alert in found.alerts] == [("k1", "gpu-07"), ("k2", None)]
    assert found.set_aside == tuple(SetAside(index, "It is neither firing nor resolved.") for index in (1, 2, 3))


def test_a_retrigger_fires_only_where_the_mapping_says_so() -> None:
    texts = DATADOG | {"status": 'item.transition in ["Triggered", "Re-Triggered"] ? "firing" : "neither"'}

    assert len(parsed(datadog("Re-Triggered"), texts).alerts) == 1


def test_a_body_that_a_template_has_broken_is_refused_with_the_place() -> None:
    broken = b'{"transition":"Triggered","host":"gpu-07","msg":"VRAM 60 GB\nsee "runbook" 4"}'

    with pytest.raises(InvalidInput) as caught:
        parsed(broken, DATADOG)

    assert caught.value.reason == "The body is not JSON: invalid control character in line 1, column 60."
    assert caught.value.way_out == "A template must escape quotes and line ends inside its texts."


def test_a_form_is_refused() -> None:
    with pytest.raises(InvalidInput, match="The body is not JSON"):
        parsed(b"payload=%7B%7D", PLAIN)


@pytest.mark.parametrize(
    ("body", "ignored"),
    [([], "It is empty."), ([item(state="ok"), item(state=None)], "Nothing in it is firing or resolved.")],
)
def test_a_body_without_an_alert_is_ignored(body: object, ignored: str) -> None:
    assert parsed(body, PLAIN) == Parsed(delivery_key="msg_1", ignored=ignored)


@pytest.mark.parametrize(
    ("body", "alerts", "reason"),
    [
        ({"n": 1}, "body.n", "`alerts` gives a number, not a list."),
        ({"n": 1}, "body.m", "The condition `body.m` cannot be evaluated: there is no m."),
        ([1] * 1001, "body", "There are 1001 alerts in it; 1000 are accepted."),
        ({"n": 2**70}, "[body]", None),
    ],
)
def test_a_body_without_a_list_of_alerts_is_refused(body: object, alerts: str, reason: str | None) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(body, PLAIN | {"alerts": alerts})

    assert reason is None or caught.value.reason == reason


def test_a_delivery_without_a_name_has_none() -> None:
    assert parsed(item(), PLAIN, {}).delivery_key is None
