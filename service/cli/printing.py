"""How the command line speaks: tables on a terminal, plain columns in a pipe, JSON when asked.

What comes from nodes and persons is shown with its control characters escaped.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.domain.shown_text import shown

_STYLES = {
    "succeeded": "green",
    "cured": "green",
    "well": "green",
    "ok": "green",
    "changed": "green",
    "running": "cyan",
    "waiting": "yellow",
    "would_change": "yellow",
    "stuck": "bold red",
    "unknown": "bold red",
    "failed": "red",
    "not_cured": "red",
    "denied": "red",
    "expired": "red",
    "unreachable": "red",
}


def say(text: str = "") -> None:
    """Print a line on standard output."""
    sys.stdout.write(f"{shown(text)}\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    """Print a line on standard error, for the person and not for what reads the output."""
    sys.stderr.write(f"{shown(text)}\n")
    sys.stderr.flush()


def print_json(value: Any) -> None:
    """Print a value as JSON and nothing else."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=True) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows as a table on a terminal, else as columns with no decoration and nothing cut."""
    lines = [[cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(columns, lines)
        return
    widths = [max(len(line[place]) for line in (list(columns), *lines)) for place in range(len(columns))]
    for line in ([column.upper() for column in columns], *lines):
        say("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def cell(value: Any) -> str:
    """Return a value as one line of a table."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(str, value)) or "-"
        case Mapping():
            return ", ".join(f"{key}={item}" for key, item in value.items()) or "-"
        case _:
            return shown(str(value)).replace("\n", " ") or "-"


def _rich_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    # Console itself minds NO_COLOR (no-color.org) and TERM=dumb.
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for line in lines:
        table.add_row(*(Text(text, style=_STYLES.get(text, ""), overflow="fold") for text in line))
    Console(highlight=False).print(table)
