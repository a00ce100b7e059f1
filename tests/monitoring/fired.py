"""Alerts that have fired, written into the blocks of a Prometheus as it would have written them itself."""

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.monitoring.promtool import need

#: How often rules are evaluated (seconds).
EVERY = 60


@dataclass(frozen=True)
class Fired:
    """One alert; times in whole seconds since 1970."""

    labels: dict[str, str]
    #: Since when its condition held.
    since: int
    #: Its first and its last firing sample.
    first: int
    last: int

    @property
    def resolved(self) -> int:
        """Return the evaluation that found it over."""
        return self.last + EVERY


def back_fill(folder: Path, fired: Iterable[Fired]) -> None:
    """Write blocks with these alerts into FOLDER/data; no two of the same labels overlap."""
    need("promtool", "prometheus")
    folder.mkdir(exist_ok=True)
    file = folder / "fired.txt"
    file.write_text("\n".join([*_lines(sorted(fired, key=lambda one: one.first)), "# EOF", ""]))
    # One block, since the file is read once for each.
    command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=1440h", "openmetrics", str(file), "data"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _lines(fired: list[Fired]) -> Iterator[str]:
    yield "# TYPE ALERTS gauge"
    for one in fired:
        told = _text({**one.labels, "alertstate": "firing"})
        yield from (f"ALERTS{told} 1 {at}" for at in range(one.first, one.last + 1, EVERY))
    yield "# TYPE ALERTS_FOR_STATE gauge"
    for one in fired:
        told = _text(one.labels)
        yield from (f"ALERTS_FOR_STATE{told} {one.since} {at}" for at in range(one.first, one.last + 1, EVERY))


def _text(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"
