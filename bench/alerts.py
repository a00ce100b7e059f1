"""Alerts: how fast deliveries are taken with durable rows, and how soon the first command runs on the node.

Both sides get the same requests from the same client in one run, in turns: the service, and a bare FastAPI endpoint
that reads the body and keeps nothing. A figure is void when an answer is not 202 or a row is missing in the record.
What was taken is judged before the next turn begins, so that it does not slow down the other side.
"""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from bench.measure import cpu_seconds, load, percentile
from bench.served import Recorded, Served
from lab.sshd import SshdFarm
from service.domain.person import Role

#: Connections that deliver at once; deliveries of each in one turn; turns of each side.
CONNECTIONS, DELIVERIES, TURNS = 16, 150, 2
#: Seconds after which a run that has not begun is a hang.
HANG = 60.0
RULES = """\
sources:
  prom: {kind: alertmanager, token: prom}
rules:
  - name: first
    when: alert.labels.alertname == "First"
    runbook: first-look
    node: alert.labels.node
    dedup: 1s
"""
_numbers = count()


@dataclass
class Measured:
    """Seconds of each answer and of each way to the first command; requests in a second, for each turn."""

    ingest: dict[str, list[float]] = field(default_factory=lambda: {"service": [], "bare": []})
    rate: dict[str, list[float]] = field(default_factory=lambda: {"service": [], "bare": []})
    #: CPU seconds of the side for one request while it takes them, judging between them included.
    cpu: dict[str, list[float]] = field(default_factory=lambda: {"service": [], "bare": []})
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    #: One answer of the bare endpoint when nothing else is asked.
    floor: list[float] = field(default_factory=list)
    load_before: str = ""
    load_after: str = ""


def measure(folder: Path, addresses: int) -> Measured:
    """Measure ingest, then the way to the first command on so many addresses, twice on each: cold and warm."""
    measured = Measured(load_before=load())
    with (
        SshdFarm(addresses) as farm,
        Served(folder, farm, rules=RULES) as served,
        served.recorded() as recorded,
        _bare() as (bare, bare_pid),
    ):
        token = served.token("prom", Role.SOURCE)
        targets = {"service": (served.url, served.pid), "bare": (bare, bare_pid)}
        # What is loaded once is not measured.
        for url, _ in targets.values():
            _turn(url, token, deliveries=10)
        _wait_until_judged(recorded)
        for _ in range(TURNS):
            for name, (url, pid) in targets.items():
                _measure_turn(measured, name, url, token, pid)
                if name == "service":
                    _wait_until_judged(recorded)
        _refuse_loss(recorded, (TURNS * DELIVERIES + 10) * CONNECTIONS)
        for node in served.nodes:
            measured.cold.append(_first_command(served, recorded, token, node))
            # The rule starts no second run on a node sooner than this.
            time.sleep(1.2)
            measured.warm.append(_first_command(served, recorded, token, node))
            measured.floor.append(_timed(_connect(bare), bare, token, _body("Floor", node)))
        recorded.events()
    measured.load_after = load()
    return measured


def _measure_turn(measured: Measured, name: str, url: str, token: str, pid: int) -> None:
    cpu = cpu_seconds(pid)
    seconds, wall = _turn(url, token, deliveries=DELIVERIES)
    measured.cpu[name].append((cpu_seconds(pid) - cpu) / len(seconds))
    measured.ingest[name] += seconds
    measured.rate[name].append(len(seconds) / wall)


def _wait_until_judged(recorded: Recorded) -> None:
    deadline = time.monotonic() + HANG
    while recorded.unjudged():
        if time.monotonic() > deadline:
            raise RuntimeError("void: what was delivered is not judged")
        time.sleep(0.1)


def _turn(url: str, token: str, *, deliveries: int) -> tuple[list[float], float]:
    """Deliver over all connections at once; return the seconds of each answer, and of the whole."""

    def play(_number: int) -> list[float]:
        with _connect(url) as connection:
            return [_timed(connection, url, token, _body("Other", "none")) for _ in range(deliveries)]

    began = time.perf_counter()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = list(pool.map(play, range(CONNECTIONS)))
    return [one for part in parts for one in part], time.perf_counter() - began


def _first_command(served: Served, recorded: Recorded, token: str, node: str) -> float:
    with _connect(served.url) as connection:
        sent = time.time()
        _timed(connection, served.url, token, _body("First", node))
    deadline = time.monotonic() + HANG
    while time.monotonic() < deadline:
        said = recorded.newest_output(node, since=datetime.fromtimestamp(sent, UTC))
        if said:
            return float(said) - sent
        time.sleep(0.05)
    raise RuntimeError(f"void: the alert on {node} has started nothing")


def _refuse_loss(recorded: Recorded, deliveries: int) -> None:
    found = recorded.deliveries()
    if found != deliveries:
        raise RuntimeError(f"void: {deliveries} deliveries were answered, and {found} are in the record")


def _body(name: str, node: str) -> bytes:
    """Return a delivery of two alerts that nobody has sent before."""
    began = datetime.now(UTC).isoformat()
    alerts = [
        {
            "status": "firing",
            "labels": {"alertname": name, "node": node, "severity": "critical", "part": str(part)},
            "annotations": {"summary": f"{name} on {node}", "description": "x" * 200},
            "startsAt": began,
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus.example.net:9090/graph?g0.expr=up",
            "fingerprint": f"{next(_numbers):016x}",
        }
        for part in range(1 if name == "First" else 2)
    ]
    return json.dumps({"version": "4", "status": "firing", "truncatedAlerts": 0, "alerts": alerts}).encode()


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname or "", parts.port or 80), 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _timed(connection: socket.socket, url: str, token: str, body: bytes) -> float:
    """Send one request on a kept connection and return the seconds until its answer was there; 202 or void."""
    head = f"POST /webhooks/prom HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    began = time.perf_counter()
    connection.sendall(head.encode() + body)
    said = b""
    while b"\r\n\r\n" not in said:
        said += _received(connection)
    told, _, rest = said.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in told.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(rest) < length:
        rest += _received(connection)
    if not told.startswith(b"HTTP/1.1 202"):
        raise RuntimeError(f"void: a delivery was answered {told.splitlines()[0].decode()}")
    return time.perf_counter() - began


def _received(connection: socket.socket) -> bytes:
    part = connection.recv(65536)
    if not part:
        raise RuntimeError("void: a connection was closed")
    return part


@contextmanager
def _bare() -> Iterator[tuple[str, int]]:
    """Serve the bare endpoint; give its address, and the number of its process."""
    command = [sys.executable, "-m", "bench.bare"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line.startswith("bare serves on "):
                raise RuntimeError("the bare endpoint did not start")
            yield line.split()[-1], process.pid
        finally:
            process.kill()


def report(measured: Measured) -> str:
    """Return the figures as Markdown; times in milliseconds."""
    ours, bare = (sum(measured.rate[name]) / TURNS for name in ("service", "bare"))
    cpu = {name: sum(of) / TURNS for name, of in measured.cpu.items()}
    around = f"load {measured.load_before} before and {measured.load_after} after; every delivery is in the record"
    lines = [
        f"{CONNECTIONS} connections, {TURNS} turns of {CONNECTIONS * DELIVERIES} deliveries of two alerts; {around}.",
        "",
        "| ingest | requests/s | p50 | p95 | p99 | CPU for one |",
        "|---|---|---|---|---|---|",
        *(
            f"{_row(name, f'{rate:.0f}', measured.ingest[name])} {1000 * cpu[name]:.2f} |"
            for name, rate in (("service", ours), ("bare", bare))
        ),
        _ratio("times bare", f"{ours / bare:.2f}", measured.ingest["service"], measured.ingest["bare"])
        + f" {cpu['service'] / cpu['bare']:.1f} |",
        "",
        "| to the first command | alerts | p50 | p95 | p99 |",
        "|---|---|---|---|---|",
        *(_row(name, str(len(values)), values) for name, values in _ways(measured)),
        *(_ratio(f"{name}, times bare", "", values, measured.floor) for name, values in _ways(measured)[:2]),
    ]
    return "\n".join(lines)


def _ways(measured: Measured) -> Sequence[tuple[str, list[float]]]:
    return (
        ("warm: the connection is kept", measured.warm),
        ("cold", measured.cold),
        ("a bare answer", measured.floor),
    )


def _row(name: str, number: str, seconds: Sequence[float]) -> str:
    return f"| {name} | {number} | " + " | ".join(f"{1000 * percentile(seconds, at):.1f}" for at in (50, 95, 99)) + " |"


def _ratio(name: str, number: str, seconds: Sequence[float], floor: Sequence[float]) -> str:
    ratios = (percentile(seconds, at) / percentile(floor, at) for at in (50, 95, 99))
    return f"| {name} | {number} | " + " | ".join(f"{ratio:.1f}" for ratio in ratios) + " |"
