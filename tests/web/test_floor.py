"""The floor under everything that is served: other origins, other hosts, forged addresses, planted secrets."""

import io
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from logging import getLogger
from pathlib import Path

import pytest

from service import logging
from service.domain.errors import ConfigInvalid
from service.domain.person import Role
from service.domain.script import ScriptKind
from service.executors.scripted import ScriptedExecutor, exits
from service.web.app import create_app
from service.web.forwarded import Forwarded
from service.web.rates import Rate, Rates
from tests.support.world import World
from tests.web.api import Api
from tests.web.browsing import signed_in
from tests.web.conftest import TARGET, dead_server
from tests.web.test_access import FILLED, ROUTES

#: Each stands for a secret of another form, and none of them may be found anywhere afterwards.
CANARY = "c4nary"
PLANTED = {
    "password in a URL": f"postgresql://unstick:{CANARY}1@db/unstick",
    "token of ours": f"unstick_{CANARY}2abcdefghijklmnop",
    "variable": f"DB_PASSWORD={CANARY}3",
    "member of JSON": f'{{"client_secret": "{CANARY}4"}}',
    "bearer": f"Authorization: Bearer {CANARY}5abcdef",
    "private key": f"-----BEGIN PRIVATE KEY-----\n{CANARY}6\n-----END PRIVATE KEY-----",
    "webhook": f"https://chat.test/hook?token={CANARY}7",
}
SAID = "\n".join(PLANTED.values()) + "\n"
ONE_LINE = " ".join(value.replace("\n", " ") for value in PLANTED.values())


@pytest.mark.parametrize("origin", ["null", "https://elsewhere.example"])
def test_s11_no_route_lets_another_origin_in(api: Api, origin: str) -> None:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}

    found = {
        (method, path, name)
        for path in {path.format_map(FILLED) for _, path, _, _ in ROUTES if not path.endswith("/events")}
        for method in ("GET", "OPTIONS")
        for name in api.ask(method, path, headers=asked).headers
        if name.startswith("access-control")
    }

    assert found == set()


def test_s12_a_page_that_was_led_here_by_another_name_cannot_send_a_form(api: Api) -> None:
    """A browser that takes evil.test for this machine says so as origin and as host, and has no cookie of it."""
    browser = signed_in(api, Role.OPERATOR)

    answer = browser.api.ask(
        "POST",
        "/alerting/pause",
        role=None,
        headers={"Host": "evil.test", "Origin": "http://evil.test"},
        data={"a": "b"},
    )

    assert answer.status_code == 401


def test_s23_a_forwarded_address_is_believed_from_a_named_proxy_alone(world: World, api: Api) -> None:
    few = Rates(address=Rate(0.001, 1))
    app = create_app(world.service, rates=few, forwarders="192.0.2.1")
    behind = Api(app, api.tokens)

    answers = [
        behind.ask("GET", "/docs", role=None, headers={"X-Forwarded-For": f"203.0.113.{number}"}).status_code
        for number in range(2)
    ]

    # Each time it is the connection's own address that is counted.
    assert answers == [200, 429]
    with pytest.raises(ConfigInvalid, match="anybody would be believed"):
        Forwarded(app, proxies="*")


class TestPlanted:
    """A run whose scripts, errors and persons tell secrets, and every way out of the service afterwards."""

    @pytest.fixture
    def executor(self) -> ScriptedExecutor:
        """Give a node whose scripts say everything, twice on its way to a failure."""
        places = dead_server("gpu-01")
        places[("gpu-01", "abort-dead", ScriptKind.CHECK)] = [
            exits(0, targets=(TARGET, f"{TARGET} {PLANTED['password in a URL']}"), stdout=SAID, stderr=SAID)
        ]
        acted = exits(1, stdout=SAID)
        places[("gpu-01", "abort-dead", ScriptKind.RUN)] = [
            replace(acted, report=replace(acted.report, reason=ONE_LINE))
        ]
        return ScriptedExecutor(places)

    @pytest.fixture
    def told(self, api: Api, world: World) -> str:
        """Give the id of a run that has failed, and everybody has said why."""
        run_id = api.request("gpu-01", reason=ONE_LINE)
        world.settle()
        for gate in world.open_gates():
            api.post(f"/approvals/{gate.id}/approve", {"digest": gate.digest, "reason": ONE_LINE})
        world.settle()
        api.post("/nodes/gpu-02/hold", {"reason": ONE_LINE})
        api.post("/pause", {"reason": ONE_LINE}, role=Role.ADMIN)
        return run_id

    def test_f25_a_planted_secret_is_in_no_channel(self, api: Api, world: World, told: str, tmp_path: Path) -> None:
        log = io.StringIO()
        logging.configure(log)
        getLogger("tests").error("it failed: %s", SAID)
        run = api.get(f"/runs/{told}").json()
        attempts = [one["id"] for node in run["nodes"] for step in node["steps"] for one in step["attempts"]]
        reads = [path.format_map(FILLED | {"run_id": told, "node": "gpu-01"}) for m, path, _, _ in ROUTES if m == "GET"]
        gates = [gate["id"] for gate in api.get("/approvals", state="approved").json()["items"]]
        browser = signed_in(api, Role.OPERATOR)

        channels = {
            "log": log.getvalue(),
            "database": "\n".join(_rows(tmp_path / "unstick.db")),
            "pages": "".join(browser.get(path).text for path in ("/gates", *(f"/gates/{gate}" for gate in gates))),
            "outputs": "".join(api.get(f"/attempts/{one}/output", stream="all").text for one in attempts),
            "timeline": api.get("/audit/timeline", run_id=told, format="md").text
            + api.get("/audit/timeline", node="gpu-01", format="csv").text,
            **{path: api.ask("GET", path).text for path in reads if not path.endswith("/events")},
        }

        assert [name for name, text in channels.items() if CANARY in text] == []
        # It was there to be found, and what stands around it still is.
        assert "DB_PASSWORD=*******" in channels["outputs"]
        assert "[redacted]" in channels["database"]


def _rows(database: Path) -> Iterator[str]:
    """Yield every value of every table, bytes as signs."""
    with sqlite3.connect(database) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield from (one.decode("latin-1") if isinstance(one, bytes) else str(one) for one in row)
