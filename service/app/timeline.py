"""The timeline of a run or a node, for a postmortem: who did what, when, in the order of the audit."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from service.app.ports import Reader
from service.app.service import Service
from service.domain.audit import AuditEvent

#: So many events of a run are read at once.
BATCH = 500
COLUMNS = ("at", "seq", "person", "on_behalf_of", "action", "run", "node", "step", "text")
#: What a spreadsheet takes for the beginning of a formula (OWASP, CSV injection).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
#: What Markdown reads as more than a sign. An underscore between letters or digits and an ampersand that begins
#: no entity are signs (CommonMark 0.31, 6.2 and 2.5).
_MARKDOWN = re.compile(r"(?P<plain>(?<=[^\W_])_+(?=[^\W_]))|[\\`*_{}\[\]<>#|~!]|&(?=\w+;)")


@dataclass(frozen=True)
class Entry:
    """One line of a timeline."""

    at: datetime
    seq: int
    person: str
    on_behalf_of: str
    action: str
    run: str
    node: str
    step: str
    #: One sentence: what happened.
    text: str


def run_entries(service: Service, run_id: str, *, after: int = 0) -> Iterator[Entry]:
    """Return the lines of a run in order, in bounded memory; NotFound, at once."""
    service.store.read(lambda reader: reader.run(run_id))
    return _run_entries(service, run_id, after=after)


def run_page(service: Service, run_id: str, *, after: int, limit: int) -> tuple[tuple[Entry, ...], int | None]:
    """Return lines of a run after a seq, and the seq to go on with, None at the end; NotFound."""

    def look(reader: Reader) -> tuple[AuditEvent, ...]:
        reader.run(run_id)
        return reader.audit_after(after, run_id=run_id, limit=limit + 1)

    events = service.store.read(look)
    shown = events[:limit]
    return tuple(entry(event) for event in shown), shown[-1].seq if len(events) > limit else None


def as_csv(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the timeline as CSV (RFC 4180), formulas disarmed."""
    yield _csv_line(COLUMNS)
    for one in entries:
        yield _csv_line([_disarmed(str(value)) for value in _values(one)])


def as_markdown(entries: Iterable[Entry], *, title: str) -> Iterator[str]:
    """Yield the timeline as a Markdown table, every sign of Markdown and HTML in it escaped."""
    yield f"# {escaped(title)}\n\nTimes are UTC.\n\n"
    yield "| at | who | what | node | step |\n|---|---|---|---|---|\n"
    empty = True
    for one in entries:
        empty = False
        who = f"{one.person} for {one.on_behalf_of}" if one.on_behalf_of else one.person
        cells = (_clock(one.at), who, one.text, one.node, one.step)
        yield "| " + " | ".join(escaped(cell) for cell in cells) + " |\n"
    if empty:
        yield "\nNothing is recorded of it in this time.\n"


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    line = text.replace("\n", " ").replace("\r", " ")
    seen = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in line)
    return _MARKDOWN.sub(lambda found: found[0] if found["plain"] else f"\\{found[0]}", seen)


def entry(event: AuditEvent) -> Entry:
    """Return the line that tells of an event."""
    fact = event.fact
    tell = _TELLING.get(fact.action, _tell_attempt if fact.action.startswith("attempt.") else _tell_any)
    return Entry(
        at=event.at,
        seq=event.seq,
        person=fact.person,
        on_behalf_of=fact.on_behalf_of,
        action=fact.action,
        run=fact.run_id,
        node=fact.node,
        step=fact.step,
        text=_told_by_hand(tell(fact.action, fact.body), fact.body),
    )


def _run_entries(service: Service, run_id: str, *, after: int) -> Iterator[Entry]:
    while events := _events_after(service, run_id, after=after):
        yield from (entry(event) for event in events)
        after = events[-1].seq


def _events_after(service: Service, run_id: str, *, after: int) -> tuple[AuditEvent, ...]:
    return service.store.read(lambda reader: reader.audit_after(after, run_id=run_id, limit=BATCH))


def _values(one: Entry) -> tuple[object, ...]:
    who = (one.person, one.on_behalf_of)
    return (_clock(one.at), one.seq, *who, one.action, one.run, one.node, one.step, one.text)


def _clock(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def _disarmed(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _csv_line(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def _tell_requested(_action: str, body: Mapping[str, Any]) -> str:
    nodes = body.get("nodes") or []
    shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    kind = "a dry run of " if body.get("dry_run") else ""
    return _with_reason(f"Requested {kind}{body.get('runbook')} on {shown}", body)


def _tell_imported(_action: str, body: Mapping[str, Any]) -> str:
    return f"Brought the journal of a run by hand on {body.get('machine')}, {body.get('lines')} lines."


def _told_by_hand(text: str, body: Mapping[str, Any]) -> str:
    """Add when it happened, by the node's clock, to what was brought into the record later."""
    place = body.get("by_hand")
    return f"{text} (by hand, {place.get('at')})" if isinstance(place, Mapping) else text


def _tell_attempt(action: str, body: Mapping[str, Any]) -> str:
    # Targets are named where they were found and where they are acted on; each line that has them is long.
    script = str(body.get("script", "script")).capitalize()
    state = action.partition(".")[2]
    if state == "intended":
        targets = body.get("targets") or [] if script == "Run" else []
        return f"{script} is sent{_on_targets(targets)}."
    if state == "finished":
        signal = body.get("signal")
        end = f"ended by signal {signal}" if signal is not None else f"exit {body.get('exit_code')}"
        targets = body.get("targets") or [] if script == "Check" else []
        return _with_reason(f"{script}: {end}{_on_targets(targets)}", body)
    return _with_reason(f"{script}: {state.replace('_', ' ')}", body)


def _tell_gate(action: str, body: Mapping[str, Any]) -> str:
    state = action.partition(".")[2]
    about = f"Gate {state}"
    if state == "overridden":
        about += ", without the approval that it asks for"
    if state == "opened":
        count = len(body.get("targets") or [])
        about += f" ({str(body.get('kind', '')).replace('_', ' ')}) on {count} target{'' if count == 1 else 's'}"
    return _with_reason(about, body)


def _tell_ended(_action: str, body: Mapping[str, Any]) -> str:
    verdict = body.get("verdict")
    return _with_reason(f"Ended {body.get('state')}" + (f", verdict {verdict}" if verdict else ""), body)


def _tell_judged(_action: str, body: Mapping[str, Any]) -> str:
    # Before names were kept, the fingerprint is all that there is.
    name = body.get("name") or body.get("fingerprint") or ""
    verdict = str(body.get("verdict", "")).replace("_", " ")
    return _with_reason(f"Alert {name} of {body.get('source')}, judged {verdict}", body)


def _tell_any(action: str, body: Mapping[str, Any]) -> str:
    known = {name: value for name, value in body.items() if value not in (None, "", [], {})}
    reason = known.pop("reason", "")
    details = ", ".join(f"{name} {_plain(value)}" for name, value in known.items())
    words = action.replace(".", " ").replace("_", " ").capitalize()
    return _with_reason(f"{words} ({details})" if details else words, {"reason": reason})


def _with_reason(text: str, body: Mapping[str, Any]) -> str:
    reason = str(body.get("reason") or "")
    return f"{text}: {reason}" if reason else f"{text}."


def _on_targets(targets: list[str]) -> str:
    return f"; targets: {'; '.join(targets)}" if targets else ""


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


_TELLING: dict[str, Callable[[str, Mapping[str, Any]], str]] = {
    "run.requested": _tell_requested,
    "run.imported": _tell_imported,
    "run.ended": _tell_ended,
    "node_run.ended": _tell_ended,
    "alert.judged": _tell_judged,
    "gate.opened": _tell_gate,
    "gate.waived": _tell_gate,
    "gate.approved": _tell_gate,
    "gate.denied": _tell_gate,
    "gate.expired": _tell_gate,
    "gate.overridden": _tell_gate,
    "gate.void": _tell_gate,
}
