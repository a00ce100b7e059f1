"""What holds for every test: no skip where none is allowed, no network in the quick ones, one hypothesis profile."""

import os
import socket
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from service.domain.known_secrets import KNOWN

NO_SKIPS = os.environ.get("UNSTICK_NO_SKIPS") == "1"
HERE = Path(__file__).resolve().parent
#: These folders are played without a network.
OFFLINE = (HERE / "unit", HERE / "runbooks", HERE / "triggers")

settings.register_profile(
    "test",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("proof", parent=settings.get_profile("test"), max_examples=5000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


#: Files of tests stand in memory where there is room for them (bytes): no test is about a failure of the power, and a
#: commit that need not reach a disk takes a hundredth of the time.
MEMORY, ROOM = Path("/dev/shm"), 4 * 1024**3


def pytest_configure() -> None:
    """Put the folders of tests into memory, unless somebody has said where, or it is too small or runs no programs.

    And let a traceback be told as Python does: structlog's own draws every frame with its values, for seconds.
    """
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    found = os.statvfs(MEMORY) if MEMORY.is_dir() else None
    if found is not None and found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


#: Folders that are played first: theirs are the longest files, and they need no node, whose file system takes a minute.
FIRST = ("crash",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest files begin first, so that none is left alone at the end."""
    items.sort(key=lambda item: not any(HERE / folder in item.path.parents for folder in FIRST))


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    """Let no test's secrets be masked in another's texts: what is known of them is known to the whole process."""
    yield
    KNOWN.forget()


def _refuse_skip(report: pytest.CollectReport | pytest.TestReport) -> None:
    """Turn a skip into a failure; what is expected to fail stays as it is."""
    if NO_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: a skip is a failure here (UNSTICK_NO_SKIPS=1): {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse modules that skip themselves."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Refuse tests that skip themselves."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse internet sockets in the quick tests; Unix sockets, which event loops need, stay open."""
    if not any(folder in request.path.parents for folder in OFFLINE):
        return
    connect, bind = socket.socket.connect, socket.socket.bind

    def guarded(call: Callable[..., None], sock: socket.socket, address: object) -> None:
        if sock.family != socket.AF_UNIX:
            pytest.fail(f"a test of this folder may not use the network: {address!r}")
        call(sock, address)

    monkeypatch.setattr(socket.socket, "connect", lambda sock, address: guarded(connect, sock, address))
    monkeypatch.setattr(socket.socket, "bind", lambda sock, address: guarded(bind, sock, address))
