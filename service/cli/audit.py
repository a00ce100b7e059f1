"""`unstick audit`: the record. `verify` works on the database; the others ask the service."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Final

import typer

from service import main
from service.cli.asking import Json, client
from service.cli.beginnings import Kind, whole_id
from service.cli.databases import database_name
from service.cli.printing import print_json, print_table, say, tell
from service.client import Client
from service.domain.agreement import Compared, RowFault
from service.domain.audit import FIRST_HASH, AuditEvent, ChainFault, first_fault
from service.domain.errors import InvalidInput, NotFound
from service.settings import load_settings

_FORMATS = ("md", "json", "csv")
#: More faults of rows are counted, and not told.
_MOST_FAULTS: Final = 20
RunFilter = Annotated[str | None, typer.Option("--run", metavar="RUN", help="Of this run.")]
NodeFilter = Annotated[str | None, typer.Option("--node", metavar="N", help="Of this node, over all runs.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="From this ISO time on.")]
Before = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before this ISO time.")]

Expect = Annotated[
    str | None,
    typer.Option("--expect", metavar="SEQ:HASH", help="A head that an earlier verify printed: it must still be there."),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Read and verify the record of who did what.", no_args_is_help=True)
    group.command("list")(list_events)
    group.command()(verify)
    group.command()(timeline)
    app.add_typer(group, name="audit")


def list_events(
    *,
    run: RunFilter = None,
    node: NodeFilter = None,
    person: Annotated[str | None, typer.Option(metavar="P", help="What this person did.")] = None,
    action: Annotated[str | None, typer.Option(metavar="A", help="Only this action, such as gate.approved.")] = None,
    since: Since = None,
    until: Before = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, max=200, help="How many.")] = 50,
    cursor: Annotated[str | None, typer.Option(metavar="C", help="Go on where the last list ended.")] = None,
    json: Json = False,
) -> None:
    """List events of the record, the newest first."""
    with client() as service:
        run = _meant(service, run)
        query = {"run_id": run, "node": node, "person": person, "action": action, "since": since, "until": until}
        page = service.get("/audit", **query, limit=limit, cursor=cursor)
    if json:
        print_json(page)
        return
    keys = ("seq", "at", "person", "action", "run_id", "node", "step")
    columns = ("seq", "at", "person", "action", "run", "node", "step")
    print_table(columns, [[event[key] for key in keys] for event in page["items"]])
    if page.get("next_cursor"):
        words = [f"--{name.removesuffix('_id')} {value}" for name, value in query.items() if value is not None]
        say(" ".join(["  unstick audit list", *words, f"--limit {limit} --cursor {page['next_cursor']}"]))


def timeline(
    *,
    run: RunFilter = None,
    node: NodeFilter = None,
    since: Since = None,
    until: Before = None,
    output_format: Annotated[
        str, typer.Option("--format", metavar="|".join(_FORMATS), help="How it is written.")
    ] = "md",
) -> None:
    """Print what happened, in order, for a postmortem: of one run, or of one node over all of its runs."""
    if (run is None) == (node is None):
        raise InvalidInput("A timeline is of one run or of one node.", "Give --run or --node.")
    if output_format not in _FORMATS:
        raise InvalidInput(f"There is no format {output_format}.", f"It may be: {', '.join(_FORMATS)}.")
    with client() as service:
        run = _meant(service, run)
        query = {"run_id": run, "node": node, "since": since, "until": until, "format": output_format}
        if output_format == "json":
            entries = list(service.items("/audit/timeline", **query))
            print_json(entries)
            empty = not entries
        else:
            text = service.text("/audit/timeline", **query).rstrip("\n")
            say(text)
            empty = output_format == "csv" and "\n" not in text
    if empty:
        tell(f"Nothing is recorded of {run or node} in this time.")


def _meant(service: Client, run: str | None) -> str | None:
    """Return the id of a run that is there; else what was typed: the record may know more."""
    try:
        return None if run is None else whole_id(service, Kind.RUN, run)
    except NotFound:
        return run


def verify(*, expect: Expect = None, json: Json = False) -> None:
    """Check the record's chain of hashes, and that runs, their nodes and gates say what it says. Exits 1 where not.

    Cut off at its end, or written anew as a whole, a chain holds by itself: only a head that was kept elsewhere
    and is given with --expect shows that.
    """
    kept = _kept(expect) if expect is not None else None
    settings = load_settings()
    store = main.open_store(settings, main.SystemClock(), must_exist=True)
    chain = _Chain(kept[0] if kept is not None else 0)
    tables = _Tables()
    try:
        fault = first_fault(chain.count(store.audit_events()))
        if fault is None and kept is not None:
            fault = chain.fault(*kept)
        if fault is None:
            tables.take(store.row_faults(tables.compared))
    finally:
        store.close()
    database = database_name(settings)
    if json:
        found = {"seq": fault.seq, "reason": fault.reason} if fault else None
        told = {"whole": fault is None, "events": chain.events, "head": chain.head, "first_fault": found}
        print_json({**told, "tables": None if fault else tables.as_json(), "database": database})
    else:
        say(f"Database: {database}")
        _tell_chain(chain, fault, compared=kept is not None)
        if fault is None:
            tables.tell()
    raise typer.Exit(0 if fault is None and not tables.faults else 1)


def _tell_chain(chain: "_Chain", fault: ChainFault | None, *, compared: bool) -> None:
    if fault is not None:
        say(f"The chain is broken at seq {fault.seq}: {fault.reason}.")
        say("The tables beside it were not compared. Keep this database as it is, and compare it with a backup.")
        return
    say(f"The chain is whole: {chain.events} events, head {chain.head}")
    if not compared:
        say("Whether newer events were cut off, or all were written anew, only a head that was kept elsewhere shows.")
    say("Keep this line elsewhere, and type it the next time:")
    say(f"  unstick audit verify --expect {chain.events}:{chain.head}")


class _Tables:
    """What became of the comparison of rows with events; the first faults are kept, all are counted."""

    def __init__(self) -> None:
        self.compared = Compared()
        self.faults = 0
        self._first: list[RowFault] = []

    def take(self, faults: Iterator[RowFault]) -> None:
        for fault in faults:
            self.faults += 1
            if self.faults <= _MOST_FAULTS:
                self._first.append(fault)

    def as_json(self) -> dict[str, object]:
        faults = [{"run_id": one.run_id, "row": one.about, "reason": one.reason} for one in self._first]
        return {**asdict(self.compared), "faults": self.faults, "first_faults": faults}

    def tell(self) -> None:
        seen = self.compared
        what = f"{seen.runs} runs, {seen.node_runs} of their nodes, {seen.gates} gates"
        if not self.faults:
            say(f"The tables say the same: {what}.")
        else:
            say(f"The tables do not say the same ({what} compared, {self.faults} faults):")
        for fault in self._first:
            say(f"  {fault.about} of run {fault.run_id}: {fault.reason}.")
        if self.faults > len(self._first):
            say(f"  and {self.faults - len(self._first)} more")
        if self.faults:
            say("Somebody wrote there beside the service. Keep this database as it is, and compare it with a backup.")
        if seen.not_comparable:
            say(f"{seen.not_comparable} words were not comparable: events of an earlier version do not carry them.")


def _kept(text: str) -> tuple[int, str]:
    """Return seq and hash of a head as verify prints it; InvalidInput."""
    if re.fullmatch(r"[0-9]{1,18}:[0-9a-f]{64}", text, re.ASCII) is None:
        raise InvalidInput(f"{text} is no head of a chain.", "Give SEQ:HASH as an earlier `audit verify` printed it.")
    seq, _, digest = text.partition(":")
    return int(seq), digest


class _Chain:
    """Counts the events that pass, and remembers the last hash and that of one seq."""

    def __init__(self, wanted: int) -> None:
        self._wanted, self._there = wanted, FIRST_HASH
        self.events = 0
        self.head = FIRST_HASH

    def count(self, events: Iterator[AuditEvent]) -> Iterator[AuditEvent]:
        for event in events:
            self.events, self.head = self.events + 1, event.hash
            if event.seq == self._wanted:
                self._there = event.hash
            yield event

    def fault(self, seq: int, digest: str) -> ChainFault | None:
        """Return why a chain that holds by itself is not the one of which a head was kept, or None."""
        if seq > self.events:
            return ChainFault(
                self.events + 1, f"the chain ends before it, and it went on to seq {seq}: events were cut off"
            )
        if digest != self._there:
            return ChainFault(seq, "its hash is not the one that was kept: events were written anew")
        return None
