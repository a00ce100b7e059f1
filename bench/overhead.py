"""What the service adds to one script: envelope, durable intent, durable result, and the decision what comes next.

Each round plays five scripts through the real service, then the same five texts over raw paramiko. The time of a
script in the service is that from its intent to the next one's (for the last: to the end of the node run), so
nothing between two scripts is left out. What the two bring back must be the same bytes, or there is no figure.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from bench.measure import load, made, others_cpu_seconds, percentile
from bench.raw import RawSsh, Said
from bench.served import Recorded, Served
from lab.sshd import SshdFarm
from service.domain.run import History

RUNBOOK = "one-cure"
#: Rounds at the beginning that make connections and load what is loaded once.
WARM = 3

Script = tuple[str, str]


@dataclass
class Measured:
    """Seconds of every script, by step and kind, and processes made for a round of five."""

    service: dict[Script, list[float]] = field(default_factory=dict)
    raw: dict[Script, list[float]] = field(default_factory=dict)
    service_forks: list[int] = field(default_factory=list)
    raw_forks: list[int] = field(default_factory=list)
    #: CPU seconds of client and node in each round.
    service_cpu: list[tuple[float, float]] = field(default_factory=list)
    raw_cpu: list[tuple[float, float]] = field(default_factory=list)
    first_intent: list[float] = field(default_factory=list)
    load_before: str = ""
    load_after: str = ""

    def added(self, script: Script) -> list[float]:
        """Return what the service added to each play of a script: its time less the median of the raw ones."""
        floor = median(self.raw[script])
        return [one - floor for one in self.service[script]]


def measure(folder: Path, rounds: int) -> Measured:
    """Play that many rounds on one address; the service's files go into a folder."""
    measured = Measured(load_before=load())
    with (
        SshdFarm(1) as farm,
        Served(folder, farm) as served,
        served.recorded() as recorded,
        RawSsh(farm, folder / "targets") as raw,
    ):
        for number in range(WARM + rounds):
            _round(served, recorded, raw, measured=measured if number >= WARM else Measured())
        recorded.events()
    measured.load_after = load()
    return measured


def _round(served: Served, recorded: Recorded, raw: RawSsh, *, measured: Measured) -> None:
    us = (os.getpid(), served.pid)
    before, on_node = made(), others_cpu_seconds(*us)
    ran = served.run(RUNBOOK, served.nodes[:1], every=0.2)
    run_id = ran.run_id
    measured.service_cpu.append((ran.cpu, others_cpu_seconds(*us) - on_node))
    measured.service_forks.append(made() - before - 1)
    (history,) = recorded.histories(run_id)
    texts = recorded.texts(run_id, served.nodes[0])
    scripts = [(attempt.step, attempt.kind.value) for attempt in history.attempts]
    before, on_node, client = made(), others_cpu_seconds(*us), time.process_time()
    said = [raw.run(texts[script]) for script in scripts]
    client = time.process_time() - client
    measured.raw_cpu.append((client, others_cpu_seconds(*us) - on_node))
    measured.raw_forks.append(made() - before - 1)
    measured.first_intent.append((history.attempts[0].intended_at - history.node_run.created_at).total_seconds())
    for script, seconds, one in zip(scripts, _seconds(history), said, strict=True):
        measured.service.setdefault(script, []).append(seconds)
        measured.raw.setdefault(script, []).append(one.seconds)
    _refuse_difference(history, said, recorded=recorded)


def _seconds(history: History) -> list[float]:
    moments = [attempt.intended_at for attempt in history.attempts]
    ended = history.node_run.ended_at
    if ended is None:
        raise RuntimeError("the node run has no end")
    return [(after - before).total_seconds() for before, after in zip(moments, [*moments[1:], ended], strict=True)]


def _refuse_difference(history: History, said: Sequence[Said], *, recorded: Recorded) -> None:
    for attempt, one in zip(history.attempts, said, strict=True):
        if recorded.output(attempt.id) != (one.stdout, one.stderr):
            raise RuntimeError(f"void: {attempt.step} {attempt.kind} brought other bytes than the raw script")


def report(measured: Measured) -> str:
    """Return the figures as Markdown; times in milliseconds."""
    scripts = list(measured.service)
    forks = [_per_script(counts, len(scripts)) for counts in (measured.service_forks, measured.raw_forks)]
    around = f"load {measured.load_before} before and {measured.load_after} after"
    lines = [
        f"{len(measured.raw_forks)} rounds of {len(scripts)} scripts, {around}; output bytes equal in every round.",
        "",
        "| script | raw p50 | raw p95 | service p50 | service p95 | added p50 | added p95 | times raw |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(" ".join(script), [script], measured) for script in scripts),
        _row("all", scripts, measured),
        "",
        f"Request recorded to first intent: p50 {1000 * median(measured.first_intent):.1f} ms.",
        "Processes and threads made on both sides per script, median of the rounds (least):",
        f"service {forks[0]}, raw {forks[1]}.",
        "CPU per script in milliseconds, mean of the rounds, client and node (its sshd included):",
        f"service {_cpu(measured.service_cpu, len(scripts))}, raw {_cpu(measured.raw_cpu, len(scripts))}.",
    ]
    return "\n".join(lines)


def _row(name: str, scripts: Sequence[Script], measured: Measured) -> str:
    raw = [one for script in scripts for one in measured.raw[script]]
    service = [one for script in scripts for one in measured.service[script]]
    added = [one for script in scripts for one in measured.added(script)]
    times = [percentile(values, percent) for values in (raw, service, added) for percent in (50, 95)]
    ratio = median(service) / median(raw)
    return f"| {name} | " + " | ".join(f"{1000 * one:.1f}" for one in times) + f" | {ratio:.1f} |"


def _per_script(counts: Sequence[int], scripts: int) -> str:
    return f"{median(counts) / scripts:.1f} ({min(counts) / scripts:.1f})"


def _cpu(rounds: Sequence[tuple[float, float]], scripts: int) -> str:
    client, node = (1000 * fmean(part) / scripts for part in zip(*rounds, strict=True))
    return f"{client:.1f} and {node:.1f}"
