"""The sweeps of rules.yaml: read strictly, and judged against the runbooks and the calendar."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.app.load_runbooks import RunbookFolder
from service.domain.alert import Alert, AlertStatus
from service.domain.errors import ConfigInvalid
from service.domain.schedule import read_schedule
from service.domain.sweep import Sweep
from service.triggers.generic import parse
from service.triggers.rules_file import lint_rules, load_rules
from service.triggers.sweep_reader import swept_source

SHIPPED = RunbookFolder(Path(__file__).parents[2] / "runbooks")
GOOD = """\
rules:
  - {name: swept, sources: [sweep], when: "true", runbook: abort-stuck-fuse, node: alert.labels.node}
sweeps:
  - name: ghost-vram
    runbook: ghost-vram-points
    selector: {pool: h100, attributes: {rack: r1}}
    params: {hold_seconds: 30}
    cron: "17 3 * * *"
    jitter: 10m
    nodes_at_once: 5
    ends_within: 2h
  - {name: all, runbook: next-boot, cron: "0 5 * * MON"}
"""
Write = Callable[[str], Path]
AT = datetime(2026, 11, 29, 3, 17, tzinfo=UTC)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    path = tmp_path / "rules.yaml"

    def written(text: str) -> Path:
        path.write_text(text)
        return path

    return written


def test_sweeps_are_read_with_all_they_say(write: Write) -> None:
    path = write(GOOD)

    sweeps = load_rules(path, SHIPPED).sweeps

    assert lint_rules(path, SHIPPED) == ()
    assert sweeps == (
        Sweep(
            "ghost-vram",
            "ghost-vram-points",
            read_schedule("17 3 * * *"),
            pool="h100",
            attributes={"rack": "r1"},
            params={"hold_seconds": 30},
            jitter=timedelta(minutes=10),
            nodes_at_once=5,
            ends_within=timedelta(hours=2),
        ),
        Sweep("all", "next-boot", read_schedule("0 5 * * MON")),
    )


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ('"17 3 * * *"', '"17 3 * *"', "8: Sweep ghost-vram: `cron` has 4 fields, and a schedule has five. Write five"),
        ('"17 3 * * *"', '"0 17 3 * * *"', "8: Sweep ghost-vram: `cron` has 6 fields, and a schedule has five."),
        ('"17 3 * * *"', '"77 3 * * *"', "8: Sweep ghost-vram: `cron` has a minute that cannot be read, or that never"),
        ('"17 3 * * *"', '"0 0 30 2 *"', "8: Sweep ghost-vram: `cron` has a day of month that cannot be read, or that"),
        ('"17 3 * * *"', '"*/5 * * * *"', "9: Sweep ghost-vram: `jitter` is as long as the time between two of"),
        ("jitter: 10m", "jiter: 10m", "9: Sweep ghost-vram: `jiter` is not a key that is known here. Do you mean"),
        ("rack: r1", "rack: 1", "6: Sweep ghost-vram: `rack` is the number 1, not text. Put it in quotes."),
        ("pool: h100, attributes: {rack: r1}", "", "6: Sweep ghost-vram: `selector` selects nothing in particular."),
        ("    selector:", "    pool: h100\n    selector:", "6: Sweep ghost-vram: `pool` is given beside `selector`."),
        ("hold_seconds: 30", "hold_seconds: 0", "7: Sweep ghost-vram: `hold_seconds` does not fit: hold_seconds is 0."),
        ("nodes_at_once: 5", "nodes_at_once: 0", "10: Sweep ghost-vram: `nodes_at_once` is the number 0; it must be"),
        (
            "ghost-vram-points",
            "ghost-vram-point",
            "5: Sweep ghost-vram: There is no runbook `ghost-vram-point`. Do you",
        ),
        ("next-boot", "node-facts", "12: Sweep all: A dry run of node-facts would show nothing: none of its steps has"),
        ("name: all", "name: ghost-vram", "12: Sweep ghost-vram: `name` is that of the sweep in line 4 too. Choose"),
        (
            "rules:\n",
            "sources:\n  sweep: {kind: alertmanager, token: t}\nrules:\n",
            "2: Source sweep: it is the name of",
        ),
    ],
)
def test_a_fault_is_told_with_its_line_and_the_way_out(write: Write, old: str, new: str, finding: str) -> None:
    assert GOOD.count(old) == 1
    path = write(GOOD.replace(old, new))

    found = [str(one) for one in lint_rules(path, SHIPPED)]

    assert [one for one in found if one.startswith(f"{path}:{finding}")], "\n".join(found)
    with pytest.raises(ConfigInvalid):
        load_rules(path, SHIPPED)


@pytest.mark.parametrize(
    ("cron", "after", "comes"),
    [
        ("17 3 * * *", datetime(2026, 11, 29, 3, 17, tzinfo=UTC), datetime(2026, 11, 30, 3, 17, tzinfo=UTC)),
        ("0 0 29 2 *", datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 2, 29, tzinfo=UTC)),
        ("*/15 * * * *", datetime(2026, 12, 31, 23, 50, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_schedule_gives_the_first_time_after_a_moment(cron: str, after: datetime, comes: datetime) -> None:
    assert read_schedule(cron).after(after) == comes


def test_what_was_found_is_read_back_for_a_test_of_rules() -> None:
    shown = {
        "fingerprint": "ghost-vram/gpu-01/vram",
        "status": "firing",
        "labels": {"alertname": "SweepFinding", "node": "gpu-01"},
        "annotations": {"looked_at": "2026-11-29T03:17:00+00:00"},
        "starts_at": "2026-11-29T03:17:00Z",
        "link": "",
        "id": "whatever else the command prints",
    }

    parsed = parse(json.dumps(shown).encode(), {}, now=AT, mapping=swept_source().mapping)

    assert parsed.set_aside == ()
    assert parsed.alerts == (
        Alert(
            "ghost-vram/gpu-01/vram",
            AlertStatus.FIRING,
            AT,
            labels={"alertname": "SweepFinding", "node": "gpu-01"},
            annotations={"looked_at": "2026-11-29T03:17:00+00:00"},
        ),
    )
