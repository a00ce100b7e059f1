"""What a Prometheus is asked, and what is said of one that does not answer well."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from service.domain.errors import InvalidInput, NotFound, SourceSilent
from service.triggers.prometheus_history import Access, PrometheusHistory, Wanted

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
LABELS = {"alertname": "Ghost", "node": "gpu-01"}


def matrix(*rows: tuple[dict[str, str], list[tuple[float, str]]]) -> httpx.Response:
    result = [{"metric": metric, "values": values} for metric, values in rows]
    return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": result}})


def fired(*ats: float, since: str = "0") -> httpx.Response:
    return matrix(
        ({"__name__": "ALERTS", "alertstate": "firing", **LABELS}, [(at, "1") for at in ats]),
        ({"__name__": "ALERTS_FOR_STATE", **LABELS}, [(at, since) for at in ats]),
    )


def ask(answer: Callable[[httpx.Request], httpx.Response], *, hours: float = 1.0, **more: Any) -> Any:
    access, most = more.pop("access", Access("http://prom:9090/under/")), more.pop("most", 100)
    wanted = Wanted(BEGIN, BEGIN + timedelta(hours=hours), **more)
    return PrometheusHistory(access, transport=httpx.MockTransport(answer), most=most).delivered(wanted)


def test_it_asks_for_raw_samples_slice_by_slice_until_the_end() -> None:
    asked: list[tuple[str, str, float]] = []
    begin = BEGIN.timestamp()

    def answer(request: httpx.Request) -> httpx.Response:
        form = parse_qs(request.content.decode())
        asked.append((request.url.path, form["query"][0], float(form["time"][0]) - begin))
        return fired(begin + 60, begin + 120)

    ask(answer, hours=13, match='node="gpu-01"')

    query = '{__name__=~"ALERTS|ALERTS_FOR_STATE",alertstate=~"firing|",node="gpu-01"}'
    assert asked == [
        ("/under/api/v1/query", f"{query}[21600s]", 21_600),
        ("/under/api/v1/query", f"{query}[21600s]", 43_200),
        ("/under/api/v1/query", f"{query}[3600s]", 46_800),
    ]


def test_labels_of_prometheus_itself_are_left_out_and_external_ones_are_added() -> None:
    begin = BEGIN.timestamp()

    found = ask(lambda _request: fired(begin + 600, begin + 660), external={"cluster": "a"})

    assert [(one.alert.status, one.alert.labels) for one in found] == [
        ("firing", {**LABELS, "cluster": "a"}),
        ("resolved", {**LABELS, "cluster": "a"}),
    ]


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (Access("http://prom:9090", token="seen"), "Bearer seen"),
        (Access("http://prom:9090", basic=("ann", "pw")), "Basic YW5uOnB3"),
    ],
)
def test_it_says_who_asks(access: Access, expected: str) -> None:
    said: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        said.append(request.headers["Authorization"])
        return fired(BEGIN.timestamp() + 60)

    ask(answer, access=access)

    assert said == [expected]


def refused(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("[Errno 111] Connection refused")


TOO_MANY = {"status": "error", "errorType": "execution", "error": "query processing would load too many samples"}
VECTOR = {"status": "success", "data": {"resultType": "vector", "result": []}}


@pytest.mark.parametrize(
    ("answer", "reason", "way_out"),
    [
        (
            refused,
            "http://prom:9090/under does not answer: ConnectError: [Errno 111] Connection refused.",
            "--prometheus",
        ),
        (
            lambda _: httpx.Response(401, text="no"),
            "http://prom:9090/under answers 401: it does not know",
            "--token-file",
        ),
        (
            lambda _: httpx.Response(200, text="<html>"),
            "What answers at http://prom:9090/under is no Prom",
            "answered 200",
        ),
        (
            lambda _: httpx.Response(404, json={"detail": "x"}),
            "What answers at http://prom:9090/under is no",
            "answered 404",
        ),
        (
            lambda _: httpx.Response(200, json=VECTOR),
            "What answers at http://prom:9090/under is no Prom",
            "answered 200",
        ),
        (lambda _: httpx.Response(200, content=json.dumps([1])), "What answers at http://prom", "answered 200"),
        (
            lambda _: httpx.Response(422, json=TOO_MANY),
            "http://prom:9090/under refuses: query processing would",
            "--match",
        ),
    ],
)
def test_one_that_does_not_answer_well_is_told_with_a_way_out(
    answer: Callable[[httpx.Request], httpx.Response], reason: str, way_out: str
) -> None:
    with pytest.raises(SourceSilent) as error:
        ask(answer)

    assert error.value.reason.startswith(reason)
    assert way_out in error.value.way_out


def test_no_alert_in_that_time_and_no_address_are_told() -> None:
    with pytest.raises(NotFound, match="knows of no alert that has fired in that time"):
        ask(lambda _request: matrix())
    with pytest.raises(InvalidInput, match="is no address of a Prometheus"):
        ask(refused, access=Access("prom:9090"))


def test_more_alerts_than_are_read_are_refused() -> None:
    labels = ({"__name__": "ALERTS", "alertstate": "firing", "node": f"n{number}"} for number in range(3))
    answer = matrix(*((one, [(BEGIN.timestamp() + 60, "1")]) for one in labels))

    with pytest.raises(SourceSilent, match="More than 2 different alerts have fired"):
        ask(lambda _request: answer, most=2)
