"""What the page of the fleet shows of a sweep, in words: what was not seen fine never looks as if it were."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

from service.app.sweep_fleet import FleetRow
from service.app.sweep_sheets import FleetSheet
from service.domain.shown_text import shown_moment
from service.domain.sweep import NEVER, Finding, StepFinding

#: A time that is due is played within seconds; after this something keeps the engine from it.
_LATE: Final = timedelta(minutes=10)


@dataclass(frozen=True)
class Cell:
    """One word of a table."""

    label: str
    word: str
    #: The class by which it is coloured; the word says the same without it.
    tone: str


@dataclass(frozen=True)
class Note:
    """Why a word stands in some cells of a row."""

    labels: str
    cell: Cell
    since: datetime | None
    reason: str


@dataclass(frozen=True)
class Line:
    """One node."""

    node: str
    cells: tuple[Cell, ...]
    #: None: never looked at.
    looked_at: datetime | None
    notes: tuple[Note, ...]
    #: When every step was last answered; only told where it was not now.
    answered_at: datetime | None
    run_id: str | None


@dataclass(frozen=True)
class SheetView:
    """One sweep."""

    sheet: FleetSheet
    #: How many nodes, and what of them, such as `2` and `NOT WELL`.
    sums: tuple[tuple[int, Cell], ...]
    lines: tuple[Line, ...]
    #: Why what stands here may be older than the schedule says.
    late: tuple[str, ...]

    @property
    def nodes(self) -> int:
        """Return how many nodes there are, on all pages."""
        return sum(self.sheet.sums.values())


def view_of(sheet: FleetSheet, *, now: datetime) -> SheetView:
    """Return a sweep as it is shown at a moment."""
    return SheetView(
        sheet,
        tuple((number, _sum(finding)) for finding, number in sheet.sums.items()),
        tuple(_line(row, sheet.titles) for row in sheet.rows),
        tuple(_late(sheet, now)),
    )


def _line(row: FleetRow, titles: Mapping[str, str]) -> Line:
    look = row.look
    said = {one.step: one for one in look.steps} if look is not None else {}
    steps = [(step, said.get(step)) for step in titles]
    unseen = look is not None and look.answered_at != look.looked_at
    return Line(
        row.node,
        tuple(_cell(step, one) for step, one in steps),
        look.looked_at if look is not None else None,
        tuple(_notes([one for _, one in steps if one is not None], row)),
        look.answered_at if look is not None and unseen else None,
        look.run_id if look is not None else None,
    )


def _notes(steps: list[StepFinding], row: FleetRow) -> Iterator[Note]:
    """Yield why each step is not seen fine; those of which the same is to be said are one."""
    together: dict[tuple[Finding, datetime | None, str], list[str]] = {}
    for one in steps:
        if one.finding.fires or one.finding is Finding.COULD_NOT_LOOK:
            together.setdefault((one.finding, row.since.get(one.step), one.reason), []).append(one.step)
    for (finding, since, reason), names in together.items():
        yield Note(", ".join(names), Cell("", finding.shown, _tone(finding)), since, reason)


def _cell(step: str, one: StepFinding | None) -> Cell:
    finding = one.finding if one is not None else None
    return Cell(step, finding.shown if finding is not None else NEVER, _tone(finding))


def _sum(finding: Finding | None) -> Cell:
    match finding:
        case None:
            words = "never looked at"
        case Finding.COULD_NOT_LOOK:
            words = "? (could not look)"
        case Finding.NOT_ASKED:
            words = "not asked"
        case _:
            words = finding.shown
    return Cell("", words, _tone(finding))


def _tone(finding: Finding | None) -> str:
    match finding:
        case Finding.NEEDS | Finding.NOT_WELL:
            return "bad"
        case Finding.COULD_NOT_LOOK | None:
            return "doubt"
        case Finding.NOT_ASKED:
            return "quiet"
        case Finding.FINE:
            return "good"
        case _:
            assert_never(finding)


def _late(sheet: FleetSheet, now: datetime) -> Iterator[str]:
    state = sheet.state
    if state is None:
        yield "The engine has not reckoned yet when it is played."
        return
    if state.skipped_at is not None and (state.last_at is None or state.skipped_at > state.last_at):
        yield f"Its time at {shown_moment(state.skipped_at)} was skipped: {state.skipped}"
    if now - state.next_at > _LATE:
        yield f"It was due at {shown_moment(state.next_at)} and was not played: is the engine running?"
