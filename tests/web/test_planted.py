"""Secrets that are planted wherever something comes in, and every way out of the service afterwards: none is found."""

import io
import json
import logging as standard_logging
import sqlite3
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import SecretStr

from service import logging, main
from service.app.judge_alerts import judge_due
from service.app.notify import Follower
from service.app.sweep_due import play_due_sweeps
from service.app.tokens import create_token
from service.cli.program import run as type_command
from service.domain.person import Role
from service.domain.script import ScriptKind
from service.executors.scripted import Answer, Place, ScriptedExecutor, exits
from service.executors.ssh.keys import load_key
from service.login.login_file import load_login
from service.settings import Settings
from service.web.app import create_app
from tests.app.sweeping import turn
from tests.notify.receiver import Taken, listening
from tests.support.notices import follow, tell
from tests.support.world import SteppedClock, World
from tests.web import senders
from tests.web.api import Api
from tests.web.browsing import Browser, signed_in
from tests.web.conftest import TARGET, dead_server
from tests.web.phone import served
from tests.web.test_access import FILLED, ROUTES

#: Each stands for a secret of another form, and none of them may be found anywhere afterwards.
CANARY = "c4nary"
OF_A_FORM = {
    "password in a URL": f"postgresql://unstick:{CANARY}1@db/unstick",
    "token of ours": f"unstick_{CANARY}2abcdefghijklmnop",
    "variable": f"DB_PASSWORD={CANARY}3",
    "member of JSON": f'{{"client_secret": "{CANARY}4"}}',
    "bearer": f"Authorization: Bearer {CANARY}5abcdef",
    "private key": f"-----BEGIN PRIVATE KEY-----\n{CANARY}6\n-----END PRIVATE KEY-----",
    "webhook": f"https://chat.test/hook?token={CANARY}7",
}
#: What the service itself holds is known by its value alone, with nothing around it that would tell.
HELD = {
    "database": f"{CANARY}-database/8",
    "login": f"{CANARY}LoginSecret9",
    "own": f"{CANARY}OwnSourceSecret10",
    "chat": f"{CANARY}ChatPathSecret11",
    "proxy": f"{CANARY}ProxySecret13",
}
#: A key with which nodes are logged in to; an output may show it without its first line, or one line of it.
KEY = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
KEY_LINES = KEY.splitlines()[1:-1]
#: A pattern of the house, in policy.yaml.
OF_THE_HOUSE = f"badge-{CANARY}12"
PLANTED = (*OF_A_FORM.values(), *HELD.values(), *KEY_LINES, OF_THE_HOUSE, "c4nary-database%2F8")
SAID = "\n".join(PLANTED) + "\n"
ONE_LINE = " ".join(value.replace("\n", " ") for value in PLANTED)
FILES = {
    "policy.yaml": "blast_radius: {nodes_at_once: 20, percent_of_pool: 100}\nredact: ['badge-[a-z0-9]+']\n",
    "rules.yaml": """\
sources:
  prom: {kind: alertmanager, token: prom}
  graf: {kind: grafana, secret_files: [own]}
sweeps:
  - {name: nightly, runbook: abort-stuck-fuse, cron: "17 3 * * *", selector: {attributes: {rack: r1}}}
rules:
  - {name: stuck, when: 'true', runbook: abort-stuck-fuse, node: alert.labels.instance}
""",
    "login.yaml": """\
base_url: https://unstick.test
oidc: {name: SSO, issuer: 'https://sso.test', client_id: unstick, client_secret_file: login}
groups: {all: [viewer]}
""",
    "notify.yaml": """\
base_url: https://unstick.test
receivers: {oncall: {kind: chat, url_file: chat, per_minute: 600}}
notices: [{to: [oncall]}]
""",
    "of-proxy.yaml": """\
proxy: {from: [192.0.2.1], header: X-Forwarded-User, secret_file: proxy}
groups: {all: [viewer]}
""",
    "inventory.yaml": "nodes: {gpu-01: {executor: local}}\n",
}


def hostile(node: str) -> dict[Place, list[Answer]]:
    """Return a node whose scripts say everything, twice on the way to a failure."""
    places = dead_server(node)
    targets = (TARGET, f"{TARGET} {OF_A_FORM['password in a URL']} {HELD['own']}")
    places[(node, "abort-dead", ScriptKind.CHECK)] = [exits(0, targets=targets, stdout=SAID, stderr=SAID)]
    acted = exits(1, stdout=SAID)
    places[(node, "abort-dead", ScriptKind.RUN)] = [replace(acted, report=replace(acted.report, reason=ONE_LINE))]
    return places


@dataclass
class Stage:
    """A service with everything set up, and everything that went out of it."""

    world: World
    api: Api
    browser: Browser
    #: The id of a run that has failed.
    run_id: str
    sent: str
    log: io.StringIO
    folder: Path

    @property
    def secrets(self) -> list[str]:
        """Return what may be found nowhere: also the tokens and the cookie with which it was asked."""
        return [CANARY, *KEY_LINES, *self.api.tokens.values(), self.browser.cookie]


@pytest.fixture
def executor() -> ScriptedExecutor:
    """Give three such nodes."""
    return ScriptedExecutor(hostile("gpu-01") | hostile("gpu-02") | hostile("gpu-03"))


@pytest.fixture
def stage(world: World, clock: SteppedClock, tmp_path: Path) -> Stage:
    """Give a service after a run, an alert, a sweep, a failure and all that people have said of it."""
    log = io.StringIO()
    logging.configure(log, level=standard_logging.DEBUG)
    with listening(Taken(200)) as chat:
        config = tmp_path / "config"
        config.mkdir()
        for name, text in FILES.items():
            (config / name).write_text(text)
        for name, secret in {**HELD, "chat": f"json://127.0.0.1:{chat.port}/{HELD['chat']}/"}.items():
            (config / name).write_text(secret + "\n")
            (config / name).chmod(0o600)
        database = SecretStr(f"postgresql://unstick:{HELD['database'].replace('/', '%2F')}@db/unstick")
        settings = Settings(config=config, database_url=database)
        main.service_id(settings)
        world.service = main.with_login(
            main.with_notices(main.with_alerts(world.service, settings), settings), settings
        )
        for source in (world.service.rules, world.service.policy, world.service.notify, world.service.login):
            source.current()
        load_login(config / "of-proxy.yaml")
        (config / "id").write_text(KEY)
        (config / "id").chmod(0o600)
        load_key(config / "id")
        api = _api(world)
        follower = Follower(world.service)
        follower.follow()
        play_due_sweeps(world.service)
        run_id = _happens(api, world, clock)
        follow(follower)
        tell(world)
        sent = "".join(body.decode() for body in chat.bodies)
    standard_logging.getLogger("tests").error("it failed: %s %s", SAID, [*api.tokens.values()])
    return Stage(world, api, signed_in(api, Role.OPERATOR), run_id, sent, log, config)


def _api(world: World) -> Api:
    tokens = {
        role: create_token(world.service, name, roles=frozenset({role}), person=name, by="test")
        for role, name in ((role, "prom" if role is Role.SOURCE else str(role)) for role in Role)
    }
    return Api(create_app(world.service), tokens)


def _happens(api: Api, world: World, clock: SteppedClock) -> str:
    """Let a person, a monitor and a schedule begin something each, and everybody say secrets about it."""
    run_id = api.request("gpu-01", reason=ONE_LINE)
    world.settle()
    labels = {"alertname": "Ghost", "instance": "gpu-02:9400", "said": ONE_LINE}
    alert = {"labels": labels, "annotations": {"said": SAID}, "generatorURL": OF_A_FORM["webhook"]}
    began = f"{clock.at:%Y-%m-%dT%H:%M:%SZ}"
    body = senders.alertmanager(starts_at=began, groupKey=ONE_LINE, externalURL=OF_A_FORM["webhook"])
    body = body.replace(b'"labels": {"alertname": "GpuGhostVram", "instance": "gpu-01:9400"}, "annotations": {}, ', b"")
    body = body.replace(b'"alerts": [{', b'"alerts": [{' + _members(alert) + b", ")
    headers = {"Authorization": f"Bearer {api.tokens[Role.SOURCE]}"}
    assert api.ask("POST", "/webhooks/prom", role=None, content=body, headers=headers).status_code == 202
    api.ask("POST", "/webhooks/prom", role=None, content=SAID.encode(), headers=headers)
    while judge_due(world.service):
        pass
    assert api.post("/sweeps/nightly/run", {"reason": ONE_LINE}).status_code == 202
    turn(world)
    for gate in world.open_gates():
        api.post(f"/approvals/{gate.id}/approve", {"digest": gate.digest, "reason": ONE_LINE}, role=Role.APPROVER)
    world.settle()
    api.post("/nodes/gpu-02/hold", {"reason": ONE_LINE})
    api.post("/pause", {"reason": ONE_LINE}, role=Role.ADMIN)
    return run_id


def _members(value: Mapping[str, object]) -> bytes:
    return json.dumps(value)[1:-1].encode()


def test_f25_a_planted_secret_is_in_no_channel(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    channels = {
        "database": "\n".join(_rows(tmp_path / "unstick.db")),
        "notices": stage.sent,
        **_answers(stage),
        **_pages(stage),
        **_commands(stage, monkeypatch, capfd),
        "log": stage.log.getvalue(),
    }

    found = {name: one for name, text in channels.items() for one in stage.secrets if one in text}
    assert found == {}
    # It was there to be found, and what stands around it still is.
    assert "DB_PASSWORD=*******" in channels["outputs"]
    shown = ("database", "notices", "/alerts/{alert_id}", "show", "timeline", "log", "gates")
    assert [name for name in shown if "redacted" not in channels[name]] == []


def _answers(stage: Stage) -> dict[str, str]:
    """Return what every GET of the API answers, with ids that exist."""
    api, found = stage.api, dict(FILLED)
    run = api.get(f"/runs/{stage.run_id}").json()
    attempts = [one["id"] for node in run["nodes"] for step in node["steps"] for one in step["attempts"]]
    gates = api.get("/approvals", state="approved").json()["items"]
    alert = next(one for one in api.get("/alerts").json()["items"] if one["source"] == "prom")
    found |= {"run_id": stage.run_id, "node": "gpu-01", "sweep": "nightly", "gate_id": gates[0]["id"]}
    found |= {"alert_id": alert["id"], "delivery_id": alert["delivery_id"], "attempt_id": attempts[0]}
    paths = [path for method, path, _, _ in ROUTES if method == "GET" and not path.endswith("/events")]
    answers = {path.removeprefix("/api/v1"): api.ask("GET", path.format_map(found)) for path in paths}
    asked = {path for path, answer in answers.items() if answer.status_code != 200}
    assert asked <= {"/audit/timeline", "/policy/explain", "/nodes/{node}/survey"}, asked
    outputs = [api.get(f"/attempts/{one}/output", stream="all").text for one in attempts]
    timelines = [
        api.find("/audit/timeline", {"format": written, **about}).text
        for written in ("md", "csv", "json")
        for about in ({"run_id": stage.run_id}, {"node": "gpu-01"}, {"node": "gpu-02"})
    ]
    audit = api.get("/audit", limit=200).text
    shown = {path: answer.text for path, answer in answers.items()}
    return {**shown, "outputs": "".join(outputs), "timelines": "".join(timelines), "audit": audit}


def _pages(stage: Stage) -> dict[str, str]:
    gates = stage.api.get("/approvals", state="approved").json()["items"]
    paths = ["/fleet", "/gates", *(f"/gates/{gate['id']}" for gate in gates), "/sign-in", "/sign-in/oidc"]
    return {"gates": "".join(stage.browser.get(path).text for path in paths)}


def _commands(stage: Stage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return what the commands print of it, and the script with which somebody goes to the node by hand."""
    monkeypatch.setenv("UNSTICK_TOKEN", stage.api.tokens[Role.OPERATOR])
    monkeypatch.setenv("UNSTICK_CONFIG", str(stage.folder))
    typed = {
        "show": ["show", stage.run_id, "--output"],
        "runs": ["runs"],
        "alerts": ["alerts", "--json"],
        "fleet": ["fleet"],
        "told": ["notices"],
        "list": ["audit", "list"],
        "timeline": ["audit", "timeline", "--run", stage.run_id],
        "export": ["export", "abort-stuck-fuse", "--node", "gpu-01", "--reason", ONE_LINE],
    }
    said = {}
    with served(stage.api.app) as url:
        monkeypatch.setenv("UNSTICK_URL", url)
        for name, words in typed.items():
            capfd.readouterr()
            with pytest.raises(SystemExit) as ended:
                sys.exit(type_command(words))
            assert ended.value.code == 0, (name, capfd.readouterr())
            said[name] = "".join(capfd.readouterr())
    return said


def _rows(database: Path) -> Iterator[str]:
    """Yield every value of every table, bytes as signs, what is packed unpacked."""
    with sqlite3.connect(database) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield from (_unpacked(one) if isinstance(one, bytes) else str(one) for one in row)


def _unpacked(value: bytes) -> str:
    try:
        return zlib.decompress(value).decode("latin-1")
    except zlib.error:
        return value.decode("latin-1")
