"""Journals that somebody has changed who had the time to write every hash anew."""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable
from typing import Any, Final


def chained(rows: list[dict[str, Any]]) -> str:
    """Return a journal whose every hash fits: what somebody can write who has the time."""
    previous, lines = str(rows[0]["plan"]), []
    for row in rows:
        text = json.dumps({name: value for name, value in row.items() if name != "hash"}, separators=(",", ":"))[:-1]
        previous = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
        lines.append(f'{text},"hash":"{previous}"}}\n')
    return "".join(lines)


def rows_of(journal: str) -> list[dict[str, Any]]:
    """Return the lines of a journal."""
    return [json.loads(line) for line in journal.splitlines()]


def header_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a journal says of its plan."""
    header: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(rows[0]["header"])))
    return header


def packed(header: dict[str, Any]) -> str:
    """Return a header as it stands in a journal."""
    return base64.b64encode(gzip.compress(json.dumps(header).encode())).decode()


def _script(rows: list[dict[str, Any]]) -> None:
    rows[5]["script_sha256"] = "0" * 64


def _no_gate(rows: list[dict[str, Any]]) -> None:
    del rows[3:5]
    number(rows)


def _first_person(rows: list[dict[str, Any]]) -> None:
    rows[4]["who"] = "Ann"


def _other_targets(rows: list[dict[str, Any]]) -> None:
    rows[5]["targets"] = base64.b64encode(b"another\n").decode()


def _older(rows: list[dict[str, Any]]) -> None:
    rows[6]["at"] = "2020-01-01T00:00:00.000000Z"


def _other_end(rows: list[dict[str, Any]]) -> None:
    rows[8]["exit_code"] = "1"


def _twice(rows: list[dict[str, Any]]) -> None:
    rows.insert(7, dict(rows[6]))
    number(rows)


def _cut_out(rows: list[dict[str, Any]]) -> None:
    del rows[5:9]
    number(rows)


def _other_text(rows: list[dict[str, Any]]) -> None:
    header = header_of(rows)
    header["source_text"] += "# nothing\n"
    rows[0]["header"] = packed(header)


def _other_node(rows: list[dict[str, Any]]) -> None:
    header = header_of(rows)
    header["node"] = header["attributes"]["name"] = rows[0]["node"] = "n01"
    rows[0]["header"] = packed(header)


def _zero_byte(rows: list[dict[str, Any]]) -> None:
    rows[4]["who"] = "bo\0b"


def _last_day(rows: list[dict[str, Any]]) -> None:
    rows[3]["at"] = "9999-12-31T23:59:59.000000Z"


def _with_a_blank(rows: list[dict[str, Any]]) -> None:
    rows[4]["who"] = "bob (admin)"


def _other_run(rows: list[dict[str, Any]]) -> None:
    rows[5]["attempt"] = rows[5]["attempt"].replace("-2", "-1")


def _no_number(rows: list[dict[str, Any]]) -> None:
    rows[3]["seq"] = float("inf")


def _bound(rows: list[dict[str, Any]]) -> None:
    rows[5]["bound"] = "another-boot"


def _other_gate(rows: list[dict[str, Any]]) -> None:
    rows[3]["kind"] = "confirm"


def _late(rows: list[dict[str, Any]]) -> None:
    for row in rows[4:]:
        row["at"] = "2998" + row["at"][4:]


def _begun_again(rows: list[dict[str, Any]]) -> None:
    rows.insert(3, {**rows[0], "at": rows[2]["at"]})
    number(rows)


def _behind_the_end(rows: list[dict[str, Any]]) -> None:
    rows.append({**rows[-1], "event": "cancelled", "by": "ann"})
    number(rows)
    rows.append(dict(rows[-2]))
    number(rows)


def _first(name: str, value: str) -> Callable[[list[dict[str, Any]]], None]:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[0][name] = value

    return change


def _set(line: int, **members: str) -> Callable[[list[dict[str, Any]]], None]:
    """Return the change of some members of a line, counted as the refusal counts it."""

    def change(rows: list[dict[str, Any]]) -> None:
        rows[line - 1] |= members

    return change


def _again(line: int, *, behind: int) -> Callable[[list[dict[str, Any]]], None]:
    """Return the change that has a line once more behind another."""

    def change(rows: list[dict[str, Any]]) -> None:
        rows.insert(behind, {**rows[line - 1], "at": rows[behind - 1]["at"]})
        number(rows)

    return change


def _header(**members: object) -> Callable[[list[dict[str, Any]]], None]:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[0]["header"] = packed(header_of(rows) | members)

    return change


def _attribute(name: str, value: object) -> Callable[[list[dict[str, Any]]], None]:
    def change(rows: list[dict[str, Any]]) -> None:
        header = header_of(rows)
        header["attributes"][name] = value
        rows[0]["header"] = packed(header)

    return change


def number(rows: list[dict[str, Any]]) -> None:
    """Number lines anew."""
    for number, row in enumerate(rows, start=1):
        row["seq"] = number


#: What is changed, and the refusal that names it.
FORGERIES: Final[list[tuple[Callable[[list[dict[str, Any]]], None], str]]] = [
    (_script, "Line 6 .*the script is not the one of the plan"),
    (_no_gate, "Line 4 .*the runbook sends nothing there"),
    (_first_person, "Line 5 .*a second person must decide"),
    (_other_targets, "Line 6 .*the runbook sends something else there"),
    (_older, "Line 7 .*older than the line before it"),
    (_other_end, "Line 10 .*ends there as failed, verdict not_cured"),
    (_twice, "Line 8 .*no script waits for this answer"),
    (_cut_out, "Line 6 .*the runbook does not end there"),
    (_other_text, "The plan digest of the journal is"),
    (_other_node, "The plan digest of the journal is"),
    (_zero_byte, "Line 5 .*has signs or a time that no script writes"),
    (_last_day, "Line 4 .*has signs or a time that no script writes"),
    (_with_a_blank, "Line 5 .*names somebody as no script does"),
    (_no_number, "Line 4 .*has not what every line has"),
    (_attribute("rack", float("inf")), "has attributes that no node has"),
    (_attribute("pools", [["lab"]]), "has attributes that no node has"),
    (_attribute("pools", "lab"), "has attributes that no node has"),
    (_attribute("name", "n01"), "has attributes that no node has"),
    (_other_run, "Line 6 .*its attempt has another number"),
    (_bound, "Line 6 .*not bound to the boot that was looked at"),
    (_other_gate, "Line 4 .*the runbook opens another gate there"),
    (_late, "Line 5 .*the gate cannot be approved there"),
    (_begun_again, "Line 4 .*stands behind the end, or begins again"),
    (_behind_the_end, "Line 11 .*stands behind the end, or begins again"),
    (_set(2, script="dance"), "Line 2 .*there is no such script"),
    (_set(3, state="perhaps"), "Line 3 .*there is no such state"),
    (_set(3, state="not_started", reason="tired"), "Line 3 .*there is no such reason"),
    (_set(3, exit_code="none"), "Line 3 .*exit_code is no number"),
    (_set(3, started="today"), "Line 3 .*started is no time"),
    (_set(3, targets="%"), "Line 3 .*targets is no base64"),
    (_set(3, stdout="AAAA"), "Line 3 .*stdout cannot be unpacked"),
    (_again(5, behind=3), "Line 4 .*no gate waits for this answer"),
    (_again(4, behind=5), "Line 6 .*the runbook opens no gate there"),
    (_set(5, who=""), "Line 5 .*nobody is named who decided"),
    (_set(5, answer="void"), "Line 5 .*the gate cannot be void there"),
    (_set(5, answer="expired"), "Line 5 .*the gate cannot be expired there"),
    (_set(5, answer=""), "Line 5 .*the gate cannot be answered there"),
    (_set(1, header=base64.b64encode(b"x").decode()), "The journal's header cannot be read"),
    (_header(more="x"), "The journal's header lacks parts, or has too many"),
    (_header(params=[]), "The journal's header has a part of a wrong kind"),
    (_header(reason="half a \ud800"), "The journal's header has signs that no export writes"),
    (_first("plan", "0" * 64), "Line 1 .*plan is not that of its header"),
    (_first("node", "n01"), "Line 1 .*node is not that of its header"),
    (_first("run", "another-00000000"), "Line 1 .*run is not that of its header"),
]
