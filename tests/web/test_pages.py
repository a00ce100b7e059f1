"""The pages of gates: what they show, who may answer from them, and that only their own forms do."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest

from service.app.pause_alerts import standing
from service.app.ports import Transaction
from service.domain.delivery import Breaker
from service.domain.person import Role
from service.domain.rails import BLAST_RADIUS
from service.domain.run import Gate, GateState
from service.domain.script import ScriptKind
from service.domain.survey import Kind, Occupant, Survey, could_not_look, not_asked, seen
from service.executors.scripted import ScriptedExecutor, exits
from tests.support.world import SteppedClock, World
from tests.web.api import Api, problem
from tests.web.browsing import HTML, OWN, Browser, opened, signed_in, words
from tests.web.conftest import TARGET, dead_server, hung_server

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202egnp.exe"


@pytest.fixture
def executor() -> ScriptedExecutor:
    """Give the usual nodes; the check on gpu-03 says what a hostile one would."""
    said = exits(0, targets=(f"{TARGET}/<b>{HOSTILE}",), stdout=f"{HOSTILE}\n", stderr="</pre><img src=x>")
    hostile = dead_server("gpu-03") | {("gpu-03", "abort-dead", ScriptKind.CHECK): [said]}
    return ScriptedExecutor(dead_server("gpu-01") | hung_server("gpu-02") | hostile)


def now(world: World, gate: Gate) -> Gate:
    """Return a gate as it is stored now."""
    return world.service.store.read(lambda reader: reader.gate(gate.id))


def answer_with(gate: Gate, answer: str = "approve", **more: str) -> dict[str, str]:
    """Return the fields of an answer."""
    return {"answer": answer, "digest": gate.digest, **more}


def test_the_page_shows_all_that_an_answer_rests_on(api: Api, world: World) -> None:
    gate = opened(world, api, reason="readers hang")

    page = signed_in(api, Role.APPROVER).get(f"/gates/{gate.id}")
    said = words(page)

    assert page.status_code == 200
    for part in (
        "abort-stuck-fuse · step abort-dead",
        "Abort connections whose server is provably gone on gpu-01",
        "until 2026-11-29 04:00:00 UTC",
        TARGET,
        "connection 57 is stuck",
        "Not reversible",
        "Requested by operator at 2026-11-29 03:00:00 UTC: readers hang",
        'targets=$(dead "$PARAM_FSTYPE" | approved)',
        "hold_seconds = 60",
        "evidence ok",
        "abort-dead waits for an answer",
        "abort-hung later, if it is needed, with a gate of its own",
        gate.digest,
    ):
        assert part in said


def test_the_page_shows_what_runs_on_the_node_and_what_could_not_be_seen(api: Api, world: World) -> None:
    gate = opened(world, api)
    pods = seen([Occupant("ml/train-0", {"owner": "Job"}), Occupant("kube-system/x", apart="DaemonSet")])
    parts = {Kind.PODS: pods, Kind.USERS: could_not_look("no answer"), Kind.JOBS: not_asked("no controller")}
    survey = Survey(world.clock.now(), {**parts, Kind.OWNERS: seen([])}, over=("There is 1 pod, and 0 may be.",))
    surveyed = replace(gate, id="surveyed", round=gate.round + 1, survey=survey)
    world.service.store.write(lambda transaction: transaction.add_gate(surveyed))

    said = words(signed_in(api, Role.APPROVER).get("/gates/surveyed"))

    assert "A person is asked, though a rule has waived it: There is 1 pod, and 0 may be." in said
    assert "1 pod, and 1 that do not count ml/train-0 · owner Job" in said
    assert "kube-system/x (DaemonSet)" in said
    assert "Users: could not look: no answer" in said
    assert "0 foreign owners" in said
    assert "Not asked, so not known: jobs (no controller)" in said


def test_to_open_the_link_decides_nothing(api: Api, world: World) -> None:
    gate = opened(world, api)
    browser = signed_in(api, Role.APPROVER)

    for _ in range(2):
        browser.get(f"/gates/{gate.id}")
        browser.get(f"/gates/{gate.id}/answer?answer=approve&digest={gate.digest}")

    assert now(world, gate) == gate


def test_an_approval_from_the_page_cures_the_node_and_the_page_tells_so(api: Api, world: World) -> None:
    gate = opened(world, api)
    browser = signed_in(api, Role.APPROVER)

    sent = browser.send(f"/gates/{gate.id}/answer", **answer_with(gate, reason="the server\r\nis gone"))
    soon = browser.get(f"/gates/{gate.id}")
    world.settle()
    page = browser.get(f"/gates/{gate.id}")

    assert (sent.status_code, sent.headers["location"]) == (303, f"/gates/{gate.id}")
    assert (now(world, gate).decided_by, now(world, gate).reason) == ("approver", "the server\nis gone")
    assert "gpu-01 goes on in a moment." in words(soon)
    assert '<meta http-equiv="refresh" content="5">' in soon.text
    assert "The gate is approved by approver" in words(page)
    assert "gpu-01: succeeded, verdict cured" in words(page)
    assert "refresh" not in page.text


def test_a_denial_needs_a_reason_and_the_page_tells_it(api: Api, world: World) -> None:
    gate = opened(world, api)
    browser = signed_in(api, Role.APPROVER)

    without = browser.send(f"/gates/{gate.id}/answer", **answer_with(gate, "deny", reason=" "))
    browser.send(f"/gates/{gate.id}/answer", **answer_with(gate, "deny", reason="an upload runs"))
    soon = browser.get(f"/gates/{gate.id}")
    world.settle()

    assert (without.status_code, "A denial needs a reason." in words(without)) == (422, True)
    assert "gpu-01: the step is not run, and this page says in a moment how it ends." in words(soon)
    assert "The gate is denied by approver" in words(browser.get(f"/gates/{gate.id}"))
    assert "an upload runs" in words(browser.get(f"/gates/{gate.id}"))


def test_the_requester_finds_no_form_at_a_second_person_gate_and_is_told_why(api: Api, world: World) -> None:
    gate = opened(world, api, "gpu-02")
    requester, second = signed_in(api, Role.OPERATOR), signed_in(api, Role.APPROVER)

    mine, theirs = requester.get(f"/gates/{gate.id}"), second.get(f"/gates/{gate.id}")
    sent = requester.send(f"/gates/{gate.id}/answer", **answer_with(gate, seen="yes"))

    assert "/answer" not in mine.text
    assert "You may not answer this gate. operator requested this run and may not answer its gate." in words(mine)
    assert f'action="/gates/{gate.id}/answer"' in theirs.text
    assert (sent.status_code, now(world, gate)) == (403, gate)


def test_what_may_disrupt_work_is_not_approved_by_one_tap(api: Api, world: World) -> None:
    gate = opened(world, api, "gpu-02")
    browser = signed_in(api, Role.APPROVER)

    slip = browser.send(f"/gates/{gate.id}/answer", **answer_with(gate))
    unchanged = now(world, gate)
    meant = browser.send(f"/gates/{gate.id}/answer", **answer_with(gate, seen="yes"))

    assert (slip.status_code, "Nothing was decided." in words(slip), unchanged) == (422, True, gate)
    assert (meant.status_code, now(world, gate).state) == (303, GateState.APPROVED)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ADMIN])
def test_who_has_no_such_role_looks_and_cannot_answer(api: Api, world: World, role: Role) -> None:
    gate = opened(world, api, "gpu-02")
    browser = signed_in(api, role)

    page = browser.get(f"/gates/{gate.id}")
    sent = browser.send(f"/gates/{gate.id}/answer", **answer_with(gate))

    assert "/answer" not in page.text
    refusal = f"{role}'s token has the role {role}, which may not answer this gate. It takes the role approver."
    assert (refusal in words(page), refusal in words(sent)) == (True, True)
    assert (sent.status_code, now(world, gate)) == (403, gate)


def test_a_digest_that_was_not_shown_decides_nothing(api: Api, world: World) -> None:
    gate = opened(world, api)

    sent = signed_in(api, Role.APPROVER).send(f"/gates/{gate.id}/answer", answer="approve", digest="0" * 64)

    assert (sent.status_code, now(world, gate)) == (409, gate)
    assert "what you saw is not what would run" in words(sent)


def test_a_gate_that_expired_while_it_was_looked_at_is_told(api: Api, world: World, clock: SteppedClock) -> None:
    gate = opened(world, api)
    clock.at += timedelta(minutes=59)
    browser = signed_in(api, Role.APPROVER)
    clock.at += timedelta(minutes=2)

    sent = browser.send(f"/gates/{gate.id}/answer", **answer_with(gate))

    assert sent.status_code == 409
    assert "The gate expired at 2026-11-29 04:00:00 UTC; nothing was run." in words(sent)
    assert "/answer" not in sent.text


def test_a_second_tap_is_told_the_same_and_somebody_slower_that_he_was(api: Api, world: World) -> None:
    gate = opened(world, api)
    first, other = signed_in(api, Role.APPROVER), signed_in(api, Role.OPERATOR)

    taps = [first.send(f"/gates/{gate.id}/answer", **answer_with(gate)).status_code for _ in range(2)]
    slower = other.send(f"/gates/{gate.id}/answer", **answer_with(gate, "deny", reason="no"))

    assert taps == [303, 303]
    assert (slower.status_code, "The gate is approved by approver" in words(slower)) == (409, True)
    run = world.service.store.read(lambda reader: reader.run(gate.run_id))
    assert world.facts(run).count("gate.approved") == 1


FOREIGN: list[tuple[Mapping[str, str], Mapping[str, str]]] = [
    ({"form_token": ""}, OWN),
    ({"form_token": "0" * 64}, OWN),
    ({"form_token": "right"}, {**OWN, "Sec-Fetch-Site": "cross-site"}),
    ({"form_token": "right"}, {**OWN, "Sec-Fetch-Site": "same-site"}),
    ({"form_token": "right"}, {**OWN, "Sec-Fetch-Site": "none"}),
    ({"form_token": "right"}, {"Origin": "http://evil.test"}),
    ({"form_token": "right"}, {"Origin": "null"}),
    ({"form_token": "right"}, {"Origin": "http://unstick.test.evil.test"}),
    ({"form_token": "right"}, {}),
]


@pytest.mark.parametrize(("fields", "headers"), FOREIGN)
def test_s12_a_form_that_is_not_of_this_session_changes_nothing(
    api: Api, world: World, fields: Mapping[str, str], headers: Mapping[str, str]
) -> None:
    gate = opened(world, api)
    browser, other = signed_in(api, Role.APPROVER), signed_in(api, Role.APPROVER)
    tokens = [re.findall(r'name="form_token" value="(\w+)"', one.get("/gates").text)[0] for one in (browser, other)]
    given = {name: tokens[0] if value == "right" else value for name, value in fields.items()}

    answers = [
        browser.post(f"/gates/{gate.id}/answer", {**answer_with(gate), **given}, headers=headers),
        browser.post("/sign-out", given, headers=headers),
        browser.post(f"/gates/{gate.id}/answer", {**answer_with(gate), "form_token": tokens[1]}),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert now(world, gate) == gate
    assert browser.get("/gates").status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_nobody_is_signed_in_by_another_site(api: Api, site: str) -> None:
    answer = Browser(api).post("/sign-in", {"token": api.tokens[Role.VIEWER]}, headers={"Sec-Fetch-Site": site})

    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_a_browser_that_sends_only_the_origin_is_believed(api: Api) -> None:
    answer = Browser(api).post("/sign-in", {"token": api.tokens[Role.VIEWER]}, headers={"Origin": OWN["Origin"]})

    assert answer.status_code == 303


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        ('{"answer": "approve"}', "application/json", 415),
        ("answer=approve", "text/plain", 415),
        ("answer=approve&answer=deny", "application/x-www-form-urlencoded", 422),
        ("a=%ff", "application/x-www-form-urlencoded", 422),
        ("&".join(f"a{number}=1" for number in range(30)), "application/x-www-form-urlencoded", 422),
        (f"reason={'x' * 70_000}", "application/x-www-form-urlencoded", 413),
    ],
)
def test_a_body_that_is_no_form_of_ours_is_not_read(api: Api, content: str, kind: str, status: int) -> None:
    browser = signed_in(api, Role.APPROVER)
    headers = {**HTML, **OWN, "Content-Type": kind, "Cookie": f"__Host-unstick={browser.cookie}"}

    answer = api.ask("POST", "/gates/x/answer", role=None, headers=headers, content=content)

    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")


def test_a_field_that_nobody_asked_for_is_refused(api: Api, world: World) -> None:
    gate = opened(world, api)

    sent = signed_in(api, Role.APPROVER).send(f"/gates/{gate.id}/answer", **answer_with(gate, person="root"))

    assert (sent.status_code, now(world, gate)) == (422, gate)


def test_s10_hostile_output_is_shown_inert(api: Api, world: World) -> None:
    gate = opened(world, api, "gpu-03", reason="<b onclick=alert(1)>")

    page = signed_in(api, Role.APPROVER).get(f"/gates/{gate.id}")

    assert page.text.count("<script") == 1
    assert not re.search(r"<(b|img)\b|\x1b|\u202e", page.text)
    assert "<script>alert(1)</script>\\x1b[31m\\u202egnp.exe" in unescape(page.text)
    assert page.text.count("</pre>") == page.text.count("<pre")


@pytest.mark.parametrize(
    "path", ["/sign-in", "/fleet", "/gates", "/gates/{id}", "/gates/none", "/sign-out", "/gates/x/y"]
)
def test_every_page_loads_nothing_but_its_own_files(api: Api, world: World, path: str) -> None:
    gate = opened(world, api)

    page = (Browser(api) if path == "/sign-in" else signed_in(api, Role.APPROVER)).get(path.format(id=gate.id))

    assert page.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in page.headers)
    assert all(one.startswith("/static/") for one in re.findall(r'(?:src|<link[^>]*href)="([^"]*)"', page.text))
    assert not re.search(r"<style|<[^>]*\s(?:style|on\w+)=|<script>", page.text)
    assert '<html lang="en">' in page.text


@pytest.mark.parametrize(
    ("path", "status"), [("/gates/none", 404), ("/gates/a b", 422), ("/gates/x/y", 404), ("/sign-out", 405)]
)
def test_a_browser_gets_a_refusal_as_a_page_and_a_program_as_a_problem(api: Api, path: str, status: int) -> None:
    browser = signed_in(api, Role.VIEWER)

    page = browser.get(path)
    told = browser.get(path, Accept="application/json")

    assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert 'href="/gates"' in page.text
    assert problem(told)[0] == status
    assert problem(Browser(api).get("/gates", Accept="application/json"))[0] == 401


def test_open_gates_are_listed_the_oldest_first(api: Api, world: World, clock: SteppedClock) -> None:
    opened(world, api, "gpu-02")
    clock.at += timedelta(minutes=1)
    opened(world, api, "gpu-01")

    page = signed_in(api, Role.APPROVER).get("/gates")

    assert re.findall(r"<strong>(gpu-\d+)</strong>", page.text) == ["gpu-02", "gpu-01"]
    assert "58 min left" in words(page)
    assert "Pause alerts" not in words(page)


def test_an_admin_pauses_resumes_and_resets_and_everybody_sees_why(api: Api, world: World) -> None:
    admin, viewer = signed_in(api, Role.ADMIN), signed_in(api, Role.VIEWER)

    def latch(transaction: Transaction) -> None:
        transaction.put_breaker(Breaker(BLAST_RADIUS, world.clock.now(), "10 nodes were disrupted."))

    refused = viewer.send("/alerting/pause", reason="x").status_code
    without = admin.send("/alerting/pause", reason=" ").status_code
    paused = admin.send("/alerting/pause", reason="a rule is wrong").status_code
    world.service.store.write(latch)
    told = words(viewer.get("/gates"))
    again = admin.send("/alerting/pause", reason="once more").status_code
    resumed = admin.send("/alerting/resume", reason="it is mended").status_code
    reset = admin.send("/alerting/reset", breaker=BLAST_RADIUS, reason="it was real").status_code

    assert (refused, without, paused, again, resumed, reset) == (403, 422, 303, 409, 303, 303)
    assert "Alerts are paused by admin" in told
    assert "the breaker blast-radius has latched" in told
    assert (standing(world.service).pause, standing(world.service).breakers[0].latched) == (None, False)


def test_a_defect_is_told_as_a_page_that_tells_nothing_of_the_inside(api: Api, world: World) -> None:
    browser = signed_in(api, Role.VIEWER)
    api.app.state.service = None

    page = browser.get("/gates")

    assert (page.status_code, page.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert "Something inside the service went wrong" in words(page)
    assert "Traceback" not in page.text
