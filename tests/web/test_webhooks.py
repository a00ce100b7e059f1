"""Deliveries of every kind of source: proven before they are read, kept before they are answered."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from service.app.tokens import create_token, revoke_token
from service.domain.delivery import DeliveryState
from service.domain.errors import Unavailable
from service.domain.person import Role
from service.triggers.receivers import SourceReceivers
from service.triggers.rules_file import FileRules
from service.web.app import create_app
from service.web.proving import AT_ONCE, MOST_BYTES, MOST_BYTES_WITH_TOKEN
from service.web.taking import Share
from tests.support.world import SteppedClock, World
from tests.triggers.sns_messages import TOPIC, Authority, authority, confirmation, signed
from tests.web import senders
from tests.web.api import Api, problem

RULES = f"""\
sources:
  prom: {{kind: alertmanager, token: prom}}
  graf: {{kind: grafana, secret_files: [graf, graf.old]}}
  pd: {{kind: pagerduty, secret_files: [pd, pd.old]}}
  cw: {{kind: cloudwatch, topics: ["{TOPIC}"]}}
  mute:
    kind: generic
    token: prom
    fingerprint: item.key
    status: '"firing"'
    labels: '{{"alertname": "muted"}}'
  own:
    kind: generic
    secret_files: [own, own.old]
    alerts: body.faults
    fingerprint: item.id
    status: 'item.open ? "firing" : "resolved"'
    starts_at: item.since
    labels: '{{"alertname": item.fault, "node": item.machine}}'
rules:
  - name: stuck-fuse
    sources: [prom]
    when: alert.labels.alertname == "GpuGhostVram"
    runbook: abort-stuck-fuse
    node: alert.labels.instance
    waive: [abort-dead]
"""
SIGNED = {"graf": senders.by_grafana, "pd": senders.by_pagerduty, "own": senders.by_standard}
KINDS = ("prom", "graf", "pd", "cw", "own")


@dataclass
class Desk:
    """A service that takes deliveries, and the hands of every sender."""

    world: World
    api: Api
    clock: SteppedClock
    folder: Path
    amazon: Authority
    token: str

    def body(self, kind: str) -> bytes:
        """Return what this source says now."""
        starts_at = f"{self.clock.at - timedelta(minutes=2):%Y-%m-%dT%H:%M:%SZ}"
        match kind:
            case "prom":
                return senders.alertmanager(starts_at=starts_at)
            case "graf":
                return senders.grafana(starts_at=starts_at)
            case "pd":
                return senders.pagerduty(starts_at=starts_at)
            case "cw":
                return senders.cloudwatch(at=self.clock.at)
            case _:
                return senders.generic(starts_at=starts_at)

    def headers(self, kind: str, body: bytes, *, secret: str = senders.SECRET) -> dict[str, str]:
        """Return the headers by which this source proves itself."""
        if kind == "prom":
            return {"Authorization": f"Bearer {self.token}"}
        return SIGNED[kind](body, secret, self.clock.at) if kind in SIGNED else {}

    def deliver(self, kind: str, body: bytes | None = None, *, secret: str = senders.SECRET) -> httpx.Response:
        """Deliver as this source does."""
        sent = self.body(kind) if body is None else body
        return self.send(kind, sent, self.headers(kind, sent, secret=secret))

    def send(self, name: str, body: Any, headers: dict[str, str]) -> httpx.Response:
        """Send a body with these headers and no others."""
        return self.api.ask("POST", f"/webhooks/{name}", role=None, content=body, headers=headers)

    def kept(self) -> list[dict[str, Any]]:
        """Return the alerts that are on the record."""
        items: list[dict[str, Any]] = self.api.get("/alerts").json()["items"]
        return items

    def facts(self) -> list[str]:
        """Return the facts of deliveries."""
        events = self.world.service.store.read(lambda reader: reader.audit_after(0, run_id=None, limit=1000))
        return [event.fact.action for event in events if event.fact.action.startswith("delivery.")]


@pytest.fixture(scope="module")
def amazon() -> Authority:
    return authority()


@pytest.fixture
def desk(world: World, clock: SteppedClock, tmp_path: Path, amazon: Authority) -> Desk:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "rules.yaml").write_text(RULES)
    for kind in SIGNED:
        form = senders.standard_secret if kind == "own" else str
        (folder / kind).write_text(f"{form(senders.SECRET)}\n")
        (folder / f"{kind}.old").write_text(form(senders.OTHER))
    rules = FileRules(folder / "rules.yaml", world.service.runbooks)
    receivers = SourceReceivers(fetch=amazon.fetch, roots=lambda: (amazon.root,))
    world.service = replace(world.service, rules=rules, receivers=receivers)
    tokens = {role: create_token(world.service, role, roles=frozenset({role}), person=role, by="test") for role in Role}
    token = create_token(world.service, "prom", roles=frozenset({Role.SOURCE}), person="the monitor", by="test")
    return Desk(world, Api(create_app(world.service), tokens), clock, folder, amazon, token)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_source_sends_is_on_the_record_before_it_is_answered(desk: Desk, kind: str) -> None:
    answer = desk.deliver(kind)

    delivery = answer.json()["delivery_id"]
    assert (answer.status_code, answer.json()) == (
        202,
        {"delivery_id": delivery, "repeated": False, "alerts": 1, "set_aside": 0, "omitted": 0, "ignored": ""},
    )
    assert answer.headers["location"] == f"/api/v1/deliveries/{delivery}"
    assert [(one["delivery_id"], one["source"], one["status"], one["verdict"]) for one in desk.kept()] == [
        (delivery, kind, "firing", None)
    ]
    assert desk.facts() == ["delivery.received"]


def test_the_person_of_a_token_delivers_and_a_signature_is_the_source_itself(desk: Desk) -> None:
    by = {}
    for kind in ("prom", "own"):
        delivery = desk.deliver(kind).json()["delivery_id"]
        by[kind] = desk.api.get(f"/deliveries/{delivery}").json()["delivered_by"]

    assert by == {"prom": "the monitor", "own": "source:own"}


def test_a_token_may_come_as_the_password_of_basic_authentication(desk: Desk) -> None:
    answer = desk.api.ask(
        "POST",
        "/webhooks/prom",
        role=None,
        content=desk.body("prom"),
        headers={"Authorization": httpx.BasicAuth("any", desk.token)._auth_header},
    )

    assert answer.status_code == 202


def strangers(desk: Desk) -> dict[str, httpx.Response]:
    """Return the answers to everybody who is not the source, by what was wrong."""
    found = {"an unknown source": desk.send("none", b"{}", {})}
    for kind in SIGNED:
        body = desk.body(kind)
        right = desk.headers(kind, body)
        forged = desk.headers(kind, body, secret="not-the-secret-of-this-source")
        found[f"{kind} unsigned"] = desk.send(kind, body, {})
        found[f"{kind} forged"] = desk.send(kind, body, forged)
        found[f"{kind} altered"] = desk.send(kind, body.replace(b"gpu-01", b"gpu-02") + b" ", right)
        found[f"{kind} under another name"] = desk.send("cw", body, right)
        found[f"{kind} not ASCII"] = desk.send(kind, body, dict.fromkeys(right, "v1=\xff,\xff"))
        found[f"{kind} with a person's token"] = desk.send(kind, body, desk.headers("prom", body))
    late = {kind: desk.headers(kind, desk.body(kind)) for kind in ("graf", "own")}
    bodies = {kind: desk.body(kind) for kind in late}
    desk.clock.at += timedelta(minutes=6)
    found |= {f"{kind} replayed late": desk.send(kind, bodies[kind], late[kind]) for kind in late}
    sns = json.loads(desk.body("cw"))
    found["cw altered"] = desk.send("cw", json.dumps({**sns, "Message": "{}"}).encode(), {})
    found["cw of another topic"] = desk.send("cw", json.dumps({**sns, "TopicArn": f"{TOPIC}2"}).encode(), {})
    found["cw by SHA-1"] = desk.send("cw", json.dumps({**sns, "SignatureVersion": "1"}).encode(), {})
    elsewhere = sns["SigningCertURL"].replace("sns.us-east-1", "sns.us-east-1.s3")
    found["cw certified elsewhere"] = desk.send("cw", json.dumps({**sns, "SigningCertURL": elsewhere}).encode(), {})
    body, right = desk.body("prom"), desk.headers("prom", b"")
    found["prom without a token"] = desk.send("prom", body, {})
    found["prom with a wrong token"] = desk.send("prom", body, {"Authorization": "Bearer unstick_wrong"})
    found["prom with an empty token"] = desk.send("prom", body, {"Authorization": "Bearer "})
    other = {"Authorization": f"Bearer {desk.api.tokens[Role.SOURCE]}"}
    found["prom with the token of another source"] = desk.send("prom", body, other)
    revoke_token(desk.world.service, "prom", by="test")
    found["prom with a revoked token"] = desk.send("prom", body, right)
    return found


def test_every_stranger_gets_the_same_answer_and_nothing_is_kept(desk: Desk) -> None:
    with capture_logs() as lines:
        answers = strangers(desk)

    first = answers["an unknown source"]
    assert {wrong: (one.status_code, one.text) for wrong, one in answers.items()} == dict.fromkeys(
        answers, (401, first.text)
    )
    assert problem(first)[1:] == ("unauthenticated", "The delivery is from nobody who is known here.")
    assert (desk.kept(), desk.facts()) == ([], [])
    # Who has to mend it finds the reason of each in the log.
    told = [(line["source"], line["reason"]) for line in lines if line["event"] == "delivery.stranger"]
    assert len(told) == len(answers)
    assert told[0] == ("none", "There is no source of this name.")


def test_a_sender_that_cannot_sign_shows_a_token_and_no_signature_stands_for_it(desk: Desk) -> None:
    body = b'{"key": "k1"}'
    signature = senders.by_standard(body, senders.SECRET, desk.clock.at)

    shown = desk.send("mute", body, {"Authorization": f"Bearer {desk.token}"})
    signed = desk.send("mute", body, signature)
    elsewhere = desk.send("own", desk.body("own"), {"Authorization": f"Bearer {desk.token}"})

    assert (shown.status_code, shown.json()["alerts"]) == (202, 1)
    assert (signed.status_code, elsewhere.status_code) == (401, 401)
    assert signed.text == elsewhere.text


def test_a_token_of_the_right_name_without_the_role_delivers_nothing(desk: Desk) -> None:
    revoke_token(desk.world.service, "prom", by="test")
    (desk.folder / "rules.yaml").write_text(RULES.replace("token: prom", "token: admin"))

    answer = desk.send("prom", desk.body("prom"), {"Authorization": f"Bearer {desk.api.tokens[Role.ADMIN]}"})

    assert answer.status_code == 401


def test_s13_a_token_that_is_revoked_while_the_body_comes_delivers_nothing(desk: Desk) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        revoke_token(desk.world.service, "prom", by="test")
        await asyncio.sleep(2 * AT_ONCE)
        yield desk.body("prom")

    answer = desk.send("prom", slowly(), desk.headers("prom", b""))

    assert problem(answer)[:2] == (401, "unauthenticated")
    assert (desk.kept(), desk.facts()) == ([], [])


@pytest.mark.parametrize("kind", [*SIGNED])
def test_two_secrets_live_while_one_is_changed_and_the_old_one_ends_without_a_restart(desk: Desk, kind: str) -> None:
    both = [desk.deliver(kind, secret=secret).status_code for secret in (senders.SECRET, senders.OTHER)]

    text = (desk.folder / "rules.yaml").read_text()
    (desk.folder / "rules.yaml").write_text(text.replace(f", {kind}.old]", "]"))
    desk.clock.at += timedelta(seconds=30)
    after = [desk.deliver(kind, secret=secret).status_code for secret in (senders.SECRET, senders.OTHER)]

    assert (set(both) <= {200, 202}, set(after[:1]) <= {200, 202}, after[1]) == (True, True, 401)


@pytest.mark.parametrize("kind", ["graf", "pd", "cw", "own"])
def test_what_comes_again_is_answered_with_the_first_id_and_taken_once(desk: Desk, kind: str) -> None:
    body = desk.body(kind)
    headers = desk.headers(kind, body)

    first, again = desk.send(kind, body, headers), desk.send(kind, body, headers)

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == {**first.json(), "repeated": True}
    assert (len(desk.kept()), desk.facts()) == (1, ["delivery.received"])


def test_two_peers_of_an_alertmanager_are_two_deliveries_of_one_fault(desk: Desk) -> None:
    body = desk.body("prom")

    answers = [desk.deliver("prom", body) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [202, 202]
    assert len({answer.json()["delivery_id"] for answer in answers}) == 2


@pytest.mark.parametrize(
    ("kind", "body", "ignored"),
    [
        ("prom", b'{"version": "4", "alerts": []}', "There are no alerts in it."),
        ("own", b'{"faults": []}', "It is empty."),
    ],
)
def test_what_is_no_fault_is_taken_all_the_same(desk: Desk, kind: str, body: bytes, ignored: str) -> None:
    answer = desk.deliver(kind, body)

    kept = desk.api.get(f"/deliveries/{answer.json()['delivery_id']}").json()
    assert (answer.status_code, kept["state"], kept["ignored"]) == (202, DeliveryState.IGNORED, ignored)


def test_a_subscription_is_shown_to_an_operator_and_never_confirmed(desk: Desk) -> None:
    body = signed(confirmation(Timestamp=f"{desk.clock.at:%Y-%m-%dT%H:%M:%S.000Z}"))

    answer = desk.send("cw", body, {"Content-Type": "text/plain; charset=UTF-8"})
    kept = desk.api.get(f"/deliveries/{answer.json()['delivery_id']}").json()

    assert (answer.status_code, kept["state"]) == (202, "ignored")
    assert kept["confirm_url"].startswith("https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription")
    assert all(url.endswith(".pem") for url in desk.amazon.asked)


def test_one_bad_alert_is_set_aside_and_the_others_are_taken(desk: Desk) -> None:
    group = json.loads(desk.body("prom"))
    group["alerts"].insert(0, {"status": "firing", "labels": {}, "startsAt": "yesterday"})

    answer = desk.deliver("prom", json.dumps({**group, "truncatedAlerts": 812}).encode())

    told = answer.json()
    assert (told["alerts"], told["set_aside"], told["omitted"]) == (1, 1, 812)
    assert sorted(one["verdict"] or "-" for one in desk.kept()) == ["-", "set_aside"]


@pytest.mark.parametrize(
    ("kind", "body", "detail"),
    [
        ("own", b'{"faults": [{"a": "line\nbreak"}]}', "The body is not JSON: invalid control character in line 1,"),
        ("prom", b'{"version": "3"}', "This is not version 4 of Alertmanager's webhook: `version` is '3'."),
        ("pd", b"\xff", "The body is not UTF-8 text at byte 0."),
    ],
)
def test_a_body_that_is_none_of_its_kind_is_refused_with_the_place_and_kept(
    desk: Desk, kind: str, body: bytes, detail: str
) -> None:
    answer = desk.deliver(kind, body)

    status, code, said = problem(answer)
    assert (status, code) == (400, "bad_request")
    assert said.startswith(detail)
    delivery = said.partition("kept as delivery ")[2].partition(",")[0]
    kept = desk.api.get(f"/deliveries/{delivery}").json()
    assert (kept["state"], kept["body"], kept["whole"]) == ("rejected", body.decode(errors="replace"), True)
    assert desk.facts() == ["delivery.rejected"]


@pytest.mark.parametrize("name", ["graf", "prom", "none"])
@pytest.mark.parametrize("announced", [True, False])
def test_a_stranger_s_body_is_not_read_beyond_the_limit(desk: Desk, name: str, announced: bool) -> None:
    chunk = b"x" * 65536
    read: list[int] = []

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(64):
            read.append(len(chunk))
            yield chunk

    answer = desk.send(name, chunk * 17 if announced else chunks(), {})

    assert problem(answer)[:2] == (413, "too_large")
    assert answer.headers["connection"] == "close"
    assert sum(read) <= MOST_BYTES + 2 * len(chunk)


def test_a_storm_of_a_known_alertmanager_may_be_larger(desk: Desk) -> None:
    group = json.loads(desk.body("prom"))
    group["alerts"][0]["annotations"]["description"] = "x" * (2 * MOST_BYTES)

    taken = desk.deliver("prom", json.dumps(group).encode())
    refused = desk.deliver("prom", b"x" * (MOST_BYTES_WITH_TOKEN + 1))

    assert (taken.status_code, refused.status_code) == (202, 413)
    assert desk.api.get(f"/deliveries/{taken.json()['delivery_id']}").json()["whole"] is False


class NotNow:
    """A store that cannot be written for a while."""

    def __init__(self, store: object) -> None:
        self._store = store

    def write(self, change: Callable[..., object]) -> object:
        raise Unavailable("The disk is full.", "Make room.")

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_cannot_be_written_sends_the_sender_away_for_some_seconds(desk: Desk, kind: str) -> None:
    app = create_app(replace(desk.world.service, store=NotNow(desk.world.service.store)))  # type: ignore[arg-type]

    answer = replace(desk, api=Api(app, desk.api.tokens)).deliver(kind)

    assert problem(answer)[:2] == (503, "unavailable")
    assert answer.headers["retry-after"] == "5"


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_can_be_held_at_once_is_sent_away_and_what_was_held_is_given_back(desk: Desk, kind: str) -> None:
    share = Share(1_000_000)
    desk.api.app.state.share = share
    share.take(990_000, None)
    full = desk.deliver(kind)
    share.give_back(990_000, None)

    answers = [desk.send("none", b"{}", {}).status_code for _ in range(3)] + [desk.deliver(kind).status_code]

    assert (full.status_code, full.headers["retry-after"]) == (503, "5")
    assert answers == [401, 401, 401, 202]


def test_a_secret_that_is_not_there_sends_the_sender_away_and_one_of_two_is_enough(desk: Desk) -> None:
    (desk.folder / "pd").unlink()
    one_left = desk.deliver("pd", secret=senders.OTHER)
    (desk.folder / "pd.old").write_text("short")
    none_left = desk.deliver("pd", secret=senders.OTHER)

    assert (one_left.status_code, none_left.status_code) == (202, 503)


def test_a_certificate_that_cannot_be_fetched_sends_sns_away(desk: Desk) -> None:
    def fetch(url: str) -> bytes:
        raise Unavailable("SNS does not give its certificate.")

    receivers = SourceReceivers(fetch=fetch, roots=lambda: (desk.amazon.root,))
    app = create_app(replace(desk.world.service, receivers=receivers))

    answer = replace(desk, api=Api(app, desk.api.tokens)).deliver("cw")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_alerts_are_listed_by_page_and_by_filter(desk: Desk) -> None:
    deliveries = [desk.deliver(kind).json()["delivery_id"] for kind in ("prom", "pd", "own")]

    first = desk.api.get("/alerts", limit=2).json()
    second = desk.api.get("/alerts", limit=2, cursor=first["next_cursor"]).json()
    of_own = desk.api.get("/alerts", source="own").json()["items"]
    of_one = desk.api.get("/alerts", delivery_id=deliveries[1]).json()["items"]
    judged = desk.api.get("/alerts", verdict="ran").json()["items"]

    assert [one["delivery_id"] for one in (*first["items"], *second["items"])] == deliveries[::-1]
    assert second["next_cursor"] is None
    assert [one["source"] for one in of_own] == ["own"]
    assert [one["delivery_id"] for one in of_one] == [deliveries[1]]
    assert judged == []


def test_an_alert_is_shown_with_what_the_monitor_said(desk: Desk) -> None:
    desk.deliver("prom")

    shown = desk.api.get(f"/alerts/{desk.kept()[0]['id']}").json()

    assert (shown["name"], shown["labels"]) == (
        "GpuGhostVram",
        {"alertname": "GpuGhostVram", "instance": "gpu-01:9400"},
    )
    assert problem(desk.api.get("/alerts/none"))[0] == 404
    assert problem(desk.api.get("/deliveries/none"))[0] == 404


def test_an_alert_is_played_again_as_a_dry_run_and_nothing_acts(desk: Desk) -> None:
    desk.deliver("prom")
    alert = desk.kept()[0]["id"]

    answer = desk.api.post(f"/alerts/{alert}/replay", {"reason": "before the change"})
    desk.world.settle()

    run = desk.api.get(f"/runs/{answer.json()['id']}").json()
    assert answer.status_code == 202
    assert (run["runbook"], run["dry_run"], run["requested_by"], run["reason"]) == (
        "abort-stuck-fuse",
        True,
        "operator",
        "before the change",
    )
    assert {attempt["script"] for step in run["nodes"][0]["steps"] for attempt in step["attempts"]} == {
        "check",
        "run",
        "verify",
    }
    assert [one["verdict"] for one in desk.kept()] == [None]


@pytest.mark.parametrize(
    ("node", "name", "reason"),
    [
        ("gpu-99:9400", "GpuGhostVram", "The inventory knows no node whose name is 'gpu-99:9400'."),
        ("gpu-01:9400", "Other", "No rule answers this alert. stuck-fuse: `alert.labels.alertname =="),
    ],
)
def test_an_alert_that_would_start_nothing_is_not_played_and_the_reason_is_told(
    desk: Desk, node: str, name: str, reason: str
) -> None:
    starts_at = f"{desk.clock.at:%Y-%m-%dT%H:%M:%SZ}"
    desk.deliver("prom", senders.alertmanager(name=name, node=node, starts_at=starts_at))

    answer = desk.api.post(f"/alerts/{desk.kept()[0]['id']}/replay")

    assert problem(answer)[:2] == (409, "conflict")
    assert problem(answer)[2].startswith(reason)
