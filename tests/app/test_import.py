"""The journal of a run by hand: what it becomes in the record, and how one that was changed is refused."""

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lab.postgres import Postgres
from service.app.import_run import import_run
from service.app.resolve import resolve
from service.domain.errors import Conflict, Forbidden, InvalidInput, NotFound, UnstickError
from service.domain.reach import Reach
from service.domain.run import AttemptState, GateState, NodeRunState, ResolveAs, Run, TriggerKind, Verdict
from service.domain.script import Stream
from service.executors.scripted import ScriptedExecutor
from service.store import migrate
from tests.app.forged_journals import FORGERIES, chained, header_of, number, packed, rows_of
from tests.cli.installation import Installation
from tests.support.by_hand import BEGIN, YES, export, world_of
from tests.support.world import OPERATOR, RealClock, World, local_nodes, outcomes

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root
SECOND_ANSWERS = (*BEGIN, ("Name:", "bob"), YES)


@dataclass(frozen=True)
class Journals:
    """Journals that exported scripts have written on this machine."""

    place: Installation
    second: str
    denied: str
    stuck: str
    unfinished: str


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Journals:
    """Play the scripts once for all tests."""
    folder = tmp_path_factory.mktemp("by-hand")
    place = Installation(folder / "place")

    planner = world_of(place.folder / "runbooks", folder)

    def played(name: str, *answers: tuple[str, str], **params: Any) -> str:
        own = folder / f"{name}-own"
        own.mkdir()
        by_hand = export(planner, own, name, **params)
        _, seen = by_hand.play(*answers)
        journal = by_hand.journal.read_text()
        # The name of the file is not the whole id, so whoever has played it is told the command that shows the run.
        assert f"  unstick show {json.loads(journal.partition(chr(10))[0])['run']}" in seen, seen
        return journal

    second = played("second", *SECOND_ANSWERS)
    made = Journals(
        place,
        second,
        denied=played("confirm", *BEGIN, (YES[0], "no"), ("Why not:", 'it "is" busy')),
        stuck=played("free", *BEGIN, verify_exit=9),
        unfinished=second[: second.rindex("\n", 0, -1) + 1],
    )
    planner.close()
    return made


@pytest.fixture
def world(tmp_path: Path, journals: Journals) -> Iterator[World]:
    """Give the service, back again, with an empty record."""
    built = world_of(journals.place.folder / "runbooks", tmp_path)
    yield built
    built.close()


def bring(world: World, journal: str) -> Run:
    """Import a journal as the operator."""
    return import_run(world.service, journal, person=OPERATOR, reason="the database was full")


def test_a_cure_by_hand_stands_in_the_record_with_its_gate_overridden(world: World, journals: Journals) -> None:
    run = bring(world, journals.second)

    [node_run] = world.node_runs(run)
    history = world.history(node_run)
    assert (run.trigger.kind, run.requested_by, run.requesters) == (
        TriggerKind.BY_HAND,
        "operator",
        ("ann", "operator"),
    )
    assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert {step: str(outcome) for step, outcome in outcomes(node_run).items()} == {"touch": "changed"}
    assert [(one.kind, one.state, one.exit_code) for one in history.attempts] == [
        ("check", AttemptState.FINISHED, 0),
        ("run", AttemptState.FINISHED, 0),
        ("verify", AttemptState.FINISHED, 0),
    ]
    [gate] = history.gates
    assert (gate.state, gate.decided_by, gate.targets) == (
        GateState.OVERRIDDEN,
        "bob (typed by hand)",
        ("thing-of-n00",),
    )
    output = world.service.store.read(lambda reader: reader.output(history.attempts[0].id, Stream.STDOUT))
    assert output == b"looked at n00\n"
    assert world.facts(run) == [
        *("run.requested", "run.imported", "attempt.intended", "attempt.finished", "gate.opened", "gate.overridden"),
        *(
            "attempt.intended",
            "attempt.finished",
            "attempt.intended",
            "attempt.finished",
            "node_run.ended",
            "run.ended",
        ),
    ]
    assert world.chain_holds()


def test_the_digest_is_that_of_the_plan(world: World, journals: Journals) -> None:
    run = bring(world, journals.second)

    plan = json.loads(journals.place("plan", "second", "--node", "n00", "--json").stdout)
    assert run.digest == plan["digest"]


def test_each_fact_names_the_line_and_who_typed(world: World, journals: Journals) -> None:
    run = bring(world, journals.second)

    events = world.service.store.read(lambda reader: reader.audit_after(0, run_id=run.id, limit=100))
    [overridden] = [event.fact for event in events if event.fact.action == "gate.overridden"]
    assert (overridden.person, overridden.on_behalf_of, overridden.body["by_hand"]["line"]) == (
        "operator",
        "bob (typed by hand)",
        5,
    )
    told = [event.fact.body["by_hand"]["line"] for event in events if event.fact.action != "run.imported"]
    assert told == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10]


def test_a_denial_by_hand_is_a_denial(world: World, journals: Journals) -> None:
    run = bring(world, journals.denied)

    [node_run] = world.node_runs(run)
    [gate] = world.history(node_run).gates
    assert (node_run.state, node_run.verdict) == (NodeRunState.DENIED, None)
    assert (gate.state, gate.reason) == (GateState.DENIED, 'it "is" busy')
    assert world.chain_holds()


def test_what_the_header_says_is_kept_without_secrets_and_inert(world: World, journals: Journals) -> None:
    rows = rows_of(journals.second)
    header = header_of(rows) | {"reason": "it hangs\x1b[2J, token=abcdefghijklmnopqrst", "exported_by": "ann\u202e"}
    rows[0]["header"] = packed(header)

    run = import_run(world.service, chained(rows), person=OPERATOR)

    [imported] = [
        event.fact.body["exported_by"]
        for event in world.service.store.read(lambda reader: reader.audit_after(0, run_id=run.id, limit=100))
        if event.fact.action == "run.imported"
    ]
    assert (run.reason, imported) == ("it hangs\\x1b[2J, token=[redacted]", "ann\\u202e")


def test_an_unknown_outcome_stays_stuck_until_it_is_resolved(world: World, journals: Journals) -> None:
    run = bring(world, journals.stuck)

    [node_run] = world.node_runs(run)
    assert (node_run.state, node_run.verdict) == (NodeRunState.STUCK, Verdict.UNKNOWN)
    assert world.chain_holds()
    resolve(world.service, run.id, node="n00", resolve_as=ResolveAs.FAILED, reason="looked", person=OPERATOR)
    world.settle()
    [node_run] = world.node_runs(run)
    assert (node_run.state, node_run.verdict) == (NodeRunState.FAILED, Verdict.UNKNOWN)
    assert world.chain_holds()


def test_a_journal_is_imported_once(world: World, journals: Journals) -> None:
    run = bring(world, journals.second)

    with pytest.raises(Conflict, match="in the record already") as refused:
        bring(world, journals.second)

    assert refused.value.way_out == f"Look at it: unstick show {run.id}"


def test_a_journal_without_its_end_is_unfinished(world: World, journals: Journals) -> None:
    with pytest.raises(Conflict, match="unfinished: its last line, 9, is result"):
        bring(world, journals.unfinished)


def test_a_journal_that_was_cut_or_put_together_from_two_is_refused(world: World, journals: Journals) -> None:
    mine, other = (one.splitlines(keepends=True) for one in (journals.second, journals.denied))

    with pytest.raises(InvalidInput, match="Line 6 of the journal is not whole"):
        bring(world, "".join(mine)[: len("".join(mine[:5])) + 40])
    with pytest.raises(InvalidInput, match="Line 4 of the journal was changed"):
        bring(world, "".join(mine[:3] + other[3:]))
    with pytest.raises(InvalidInput, match="Line 1 of the journal was changed"):
        bring(world, "".join(mine[1:]))


def test_a_script_that_was_played_twice_is_two_runs(world: World, journals: Journals) -> None:
    own = rows_of(journals.second)[0]["run"]
    first = bring(world, journals.second)

    again = chained([json.loads(line.replace(own, own[:-8] + "0" * 8)) for line in journals.second.splitlines()])
    second = bring(world, again)

    assert (second.id, second.digest) == (own[:-8] + "0" * 8, first.digest)
    assert world.chain_holds()


@pytest.mark.parametrize(
    ("written", "allowed"), [("lab", "elsewhere"), ("elsewhere", "elsewhere"), ("elsewhere", "lab")]
)
def test_whoever_may_not_request_the_run_may_not_import_it(
    world: World, journals: Journals, written: str, allowed: str
) -> None:
    rows = rows_of(journals.second)
    header = header_of(rows)
    header["attributes"]["pools"] = [written]
    rows[0]["header"] = packed(header)
    person = replace(OPERATOR, reach=Reach(pools=(allowed,)))

    with pytest.raises(Forbidden):
        import_run(world.service, chained(rows), person=person)


def test_who_has_approved_may_go_on_with_the_run_afterwards(world: World, journals: Journals) -> None:
    rows = rows_of(journals.second)
    rows.insert(5, {**rows[4], "event": "resumed", "by": "bob", "machine": "n00", "known_by": "hostname"})
    number(rows)

    run = bring(world, chained(rows))

    assert (world.node_runs(run)[0].verdict, run.requesters) == (Verdict.CURED, ("ann", "bob", "operator"))


def test_a_secret_in_a_journal_is_not_kept(world: World, journals: Journals) -> None:
    rows = rows_of(journals.second)
    rows[2]["stdout"] = base64.b64encode(gzip.compress(b"password: hunter2\n")).decode()
    rows[4]["why"] = base64.b64encode(b"password: hunter2").decode()
    for row in (rows[2], rows[5], rows[7]):
        row["targets"] = base64.b64encode(b"password: hunter2\n").decode()

    run = bring(world, chained(rows))

    history = world.history(world.node_runs(run)[0])
    output = world.service.store.read(lambda reader: reader.output(history.attempts[0].id, Stream.STDOUT))
    events = world.service.store.read(lambda reader: reader.audit_after(0, run_id=run.id, limit=100))
    assert output == b"password: *******\n"
    assert "hunter2" not in f"{history}{[event.fact for event in events]}"
    assert world.chain_holds()


@pytest.mark.parametrize("year", ["1970", "2099"])
def test_a_wrong_clock_of_a_node_does_not_keep_a_journal_out(world: World, journals: Journals, year: str) -> None:
    rows = rows_of(journals.second)
    for row in rows:
        row["at"] = year + row["at"][4:]

    run = bring(world, chained(rows))

    events = world.service.store.read(lambda reader: reader.audit_after(0, run_id=run.id, limit=100))
    assert run.created_at <= world.clock.now()
    assert {event.fact.body["by_hand"]["at"][:4] for event in events if "by_hand" in event.fact.body} == {year}
    assert all(event.at.year not in (1970, 2099) for event in events)
    assert world.chain_holds()


def test_it_is_brought_into_postgresql_as_well(journals: Journals, postgres_server: Postgres) -> None:
    url = postgres_server.create()
    migrate.upgrade(url)
    world = World.build(
        url,
        ScriptedExecutor({}),
        inventory=local_nodes("n00"),
        runbooks=journals.place.folder / "runbooks",
        clock=RealClock(),
    )

    runs = [bring(world, one) for one in (journals.second, journals.denied, journals.stuck)]

    assert [world.node_runs(run)[0].state for run in runs] == [
        NodeRunState.SUCCEEDED,
        NodeRunState.DENIED,
        NodeRunState.STUCK,
    ]
    with pytest.raises(Conflict, match="in the record already"):
        bring(world, journals.denied)
    assert world.chain_holds()
    world.close()


def test_a_runbook_that_has_changed_since_can_still_be_imported(world: World, journals: Journals) -> None:
    file = journals.place.folder / "runbooks" / "second.yaml"
    before = file.read_text()
    file.write_text(before.replace("Act on a thing", "Act on another thing"))
    try:
        run = bring(world, journals.second)
    finally:
        file.write_text(before)

    events = world.service.store.read(lambda reader: reader.audit_after(0, run_id=run.id, limit=100))
    [imported] = [event.fact.body for event in events if event.fact.action == "run.imported"]
    told = ("runbook_is_offered_now", "of_this_installation", "persons")
    assert {name: imported[name] for name in told} == {
        "runbook_is_offered_now": False,
        "of_this_installation": False,
        "persons": "They typed their names at the node, and nobody has proved who typed.",
    }


def test_a_node_that_nobody_knows_is_refused(tmp_path: Path, journals: Journals) -> None:
    world = World.build(
        f"sqlite:///{tmp_path}/unstick.db",
        ScriptedExecutor({}),
        inventory=local_nodes("gpu-01"),
        runbooks=journals.place.folder / "runbooks",
    )

    with pytest.raises(NotFound, match="no node n00"):
        bring(world, journals.second)

    world.close()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        *((0, name) for name in ("seq", "at", "boot", "run", "node", "by", "machine", "known_by", "header", "plan")),
        *((1, name) for name in ("event", "step", "script", "round", "attempt", "script_sha256", "bound", "targets")),
        *((2, name) for name in ("state", "exit_code", "stdout", "stderr", "stdout_bytes", "truncated", "targets")),
        *((3, name) for name in ("kind", "check")),
        *((4, name) for name in ("answer", "who", "why")),
        *((9, name) for name in ("state", "verdict", "hash")),
    ],
)
def test_a_changed_member_breaks_its_line(world: World, journals: Journals, line: int, name: str) -> None:
    lines = journals.second.splitlines(keepends=True)
    row = json.loads(lines[line])
    row[name] = row[name] + 1 if isinstance(row[name], int) else "f" + row[name][1:] if row[name] else "x"
    row[name] = "0" + row[name][1:] if row == json.loads(lines[line]) else row[name]
    lines[line] = json.dumps(row, separators=(",", ":")) + "\n"

    with pytest.raises(InvalidInput, match=f"Line {line + 1} of the journal"):
        bring(world, "".join(lines))


@pytest.mark.parametrize(("forge", "words"), FORGERIES)
def test_a_journal_chained_anew_is_no_run_of_its_plan(
    world: World, journals: Journals, forge: Callable[[list[dict[str, Any]]], None], words: str
) -> None:
    rows = rows_of(journals.second)
    forge(rows)

    with pytest.raises(InvalidInput, match=words):
        bring(world, chained(rows))


@pytest.mark.parametrize("text", ["", "\n", "{}\n", "no journal\n", '{"seq":1,"hash":"' + "0" * 64 + '"}\n'])
def test_what_is_no_journal_is_refused(world: World, text: str) -> None:
    with pytest.raises(UnstickError, match="journal"):
        bring(world, text)
