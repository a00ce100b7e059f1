import socket
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from service.domain.node import Endpoint
from service.domain.script import NotStarted, OutputChunk, ReportState, Stream
from service.executors.ssh.executor import Persistence, SshExecutor
from tests.executors.ssh.proxy import Proxy
from tests.executors.ssh.sshd import Sshd
from tests.executors.ssh.support import IMPATIENT, PERSISTENT, Heard, executor, order, ref, said

#: Enough for opening a channel and starting the command, and less than the envelope.
INTO_THE_PAYLOAD = 6000


@pytest.fixture
def proxy(sshd: Sshd) -> Iterator[Proxy]:
    with Proxy((sshd.address, sshd.port)) as made:
        yield made


@pytest.fixture
def endpoint(sshd: Sshd, proxy: Proxy) -> Endpoint:
    return sshd.endpoint(address=proxy.address, port=proxy.port)


@pytest.fixture
def warm(ssh: SshExecutor, endpoint: Endpoint) -> SshExecutor:
    """An executor whose connection stands."""
    assert ssh.start(order(endpoint, "true"), Heard()).state is ReportState.FINISHED
    return ssh


@pytest.fixture
def doubting(endpoint: Endpoint) -> Iterator[SshExecutor]:
    """One that soon doubts a silent peer, and asks on for as long as it takes."""
    made = executor(patience=IMPATIENT, persistence=PERSISTENT)
    assert made.start(order(endpoint, "true"), Heard()).state is ReportState.FINISHED
    yield made
    made.close()


class CutAt(Heard):
    """Does something once when a word is heard."""

    def __init__(self, word: bytes, *acts: Callable[[], None]) -> None:
        super().__init__()
        self._word, self._acts, self._done = word, acts, False

    def __call__(self, chunk: OutputChunk) -> None:
        super().__call__(chunk)
        if not self._done and self._word in self.text():
            self._done = True
            for act in self._acts:
                act()


def test_a_kept_connection_that_broke_is_replaced_before_anything_is_sent(
    warm: SshExecutor, endpoint: Endpoint, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.cut_after(10)

    report = warm.start(order(endpoint, f"echo x >>{tmp_path}/count"), Heard())

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert (tmp_path / "count").read_text() == "x\n"
    assert proxy.accepted == 2


def test_a_connection_on_which_a_question_cannot_be_sent_gives_no_sign_of_life(
    warm: SshExecutor, endpoint: Endpoint
) -> None:
    with warm._pool.lease(endpoint) as link:
        sock = link.transport.sock
        assert isinstance(sock, socket.socket)
        # The reader hears nothing yet: only whoever writes notices.
        sock.shutdown(socket.SHUT_WR)

        assert not link.answers()


def test_a_link_that_breaks_before_the_payload_and_stays_broken_proves_that_nothing_ran(
    warm: SshExecutor, endpoint: Endpoint, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.cut_after(10)
    proxy.refuse()

    report = warm.start(order(endpoint, f"echo x >>{tmp_path}/count"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.UNREACHABLE, None), report.reason
    assert not (tmp_path / "count").exists()


def test_a_link_cut_in_the_payload_closes_the_door_and_proves_that_nothing_ran(
    warm: SshExecutor, endpoint: Endpoint, proxy: Proxy, tmp_path: Path
) -> None:
    sent = order(endpoint, f"echo x >>{tmp_path}/count")
    proxy.cut_after(INTO_THE_PAYLOAD)

    report = warm.start(sent, Heard())
    late = warm.start(sent, Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.VOID, None), report.reason
    assert said(late) == (ReportState.NOT_STARTED, NotStarted.VOID, None), late.reason
    assert not (tmp_path / "count").exists()


def test_a_link_cut_in_the_payload_of_a_machine_that_stays_away_is_lost_until_it_can_be_asked(
    warm: SshExecutor, endpoint: Endpoint, proxy: Proxy, tmp_path: Path
) -> None:
    sent = order(endpoint, f"echo x >>{tmp_path}/count")
    proxy.cut_after(INTO_THE_PAYLOAD)
    proxy.refuse()
    lost = warm.start(sent, Heard())
    proxy.refuse(False)

    settled = warm.settle(ref(sent), Heard())

    assert said(lost) == (ReportState.LOST, None, None), lost.reason
    assert "The script may have run" in lost.reason
    assert said(settled) == (ReportState.NOT_STARTED, NotStarted.VOID, None), settled.reason
    assert not (tmp_path / "count").exists()


def test_a_link_cut_while_the_script_runs_is_taken_up_again_and_no_byte_is_missing(
    warm: SshExecutor, endpoint: Endpoint, proxy: Proxy, tmp_path: Path
) -> None:
    heard = CutAt(b"3\n", proxy.cut)
    script = f"echo x >>{tmp_path}/count; for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done; exit 5"

    report = warm.start(order(endpoint, script), heard)

    assert said(report) == (ReportState.FINISHED, None, 5), report.reason
    assert heard.text() == b"1\n2\n3\n4\n5\n6\n"
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_script_that_ended_while_nobody_could_hear_it_is_known_afterwards(
    doubting: SshExecutor, endpoint: Endpoint, proxy: Proxy, tmp_path: Path
) -> None:
    heard = CutAt(b"go\n", proxy.freeze, proxy.thaw)

    report = doubting.start(order(endpoint, f"echo go; sleep 0.5; echo x >>{tmp_path}/count; echo done"), heard)

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert heard.text() == b"go\ndone\n"
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_dead_peer_without_a_sign_is_noticed_and_the_worker_is_free(endpoint: Endpoint, proxy: Proxy) -> None:
    ssh = executor(patience=IMPATIENT, persistence=Persistence(questions=1))
    heard = CutAt(b"go\n", proxy.freeze)
    began = time.monotonic()

    report = ssh.start(order(endpoint, "echo go; sleep 900", timeout=timedelta(seconds=900)), heard)

    ssh.close()
    assert said(report) == (ReportState.LOST, None, None), report.reason
    # Long before the end of the script, at which it would be given up in any case.
    assert time.monotonic() - began < 600


def test_a_dead_peer_behind_a_living_jump_host_is_noticed_too(
    sshd: Sshd, own_sshd: Sshd, proxy: Proxy, tmp_path: Path
) -> None:
    ssh = executor(patience=IMPATIENT, persistence=PERSISTENT)
    endpoint = sshd.endpoint(address=proxy.address, port=proxy.port, jump=own_sshd.endpoint(name="bastion"))
    heard = CutAt(b"go\n", proxy.freeze, proxy.thaw)

    report = ssh.start(order(endpoint, f"echo go; sleep 1; echo x >>{tmp_path}/count; exit 6"), heard)

    ssh.close()
    assert said(report) == (ReportState.FINISHED, None, 6), report.reason
    assert (tmp_path / "count").read_text() == "x\n"


def test_closing_the_executor_ends_every_wait_and_the_script_runs_on(sshd: Sshd, tmp_path: Path) -> None:
    first, second = executor(persistence=Persistence(pause=60)), executor()
    sent = order(sshd.endpoint(), f"echo go; until [ -e {tmp_path}/end ]; do sleep 0.1; done; exit 3")

    lost = first.start(sent, CutAt(b"go\n", first.close))
    (tmp_path / "end").touch()
    settled = second.settle(ref(sent), Heard())
    second.close()

    assert said(lost) == (ReportState.LOST, None, None), lost.reason
    assert said(settled) == (ReportState.FINISHED, None, 3), settled.reason


def test_a_machine_that_rebooted_meanwhile_says_so(own_sshd: Sshd, tmp_path: Path) -> None:
    ssh = executor(persistence=PERSISTENT)
    heard = CutAt(b"go\n", own_sshd.reboot)
    script = f"echo x >>{tmp_path}/count; echo go; sleep 30"

    report = ssh.start(order(own_sshd.endpoint(), script, timeout=timedelta(seconds=60)), heard)
    ssh.close()

    assert said(report) == (ReportState.REBOOTED, None, None), report.reason
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_lost_script_can_be_settled_and_stopped_over_a_new_connection(
    warm: SshExecutor, endpoint: Endpoint, proxy: Proxy
) -> None:
    sent = order(endpoint, "echo go; sleep 60", timeout=timedelta(seconds=90))
    heard = CutAt(b"go\n", proxy.refuse, proxy.cut)
    lost = warm.start(sent, heard)
    proxy.refuse(False)

    running = warm.settle(ref(sent, wait=timedelta(seconds=1)), Heard())
    stopped = warm.stop(ref(sent), Heard())

    assert said(lost) == (ReportState.LOST, None, None), lost.reason
    assert said(running) == (ReportState.RUNNING, None, None), running.reason
    assert (stopped.state, stopped.signal, stopped.ended_by_us) == (ReportState.FINISHED, 15, True), stopped.reason


def test_ten_megabytes_on_both_streams_are_no_dead_lock(sshd: Sshd, ssh: SshExecutor) -> None:
    heard = Heard()
    script = "put() { yes 0123456789 | head -c 2M || true; }; for i in 1 2 3 4 5; do put; put >&2; done"

    report = ssh.start(order(sshd.endpoint(), script, timeout=timedelta(seconds=60)), heard)

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert (report.stdout_bytes, report.stderr_bytes, report.truncated) == (10 * 1024**2, 10 * 1024**2, True)
    assert sum(len(chunk.data) for chunk in heard.chunks) <= 21 * 1024**2
    assert {chunk.stream for chunk in heard.chunks} == {Stream.STDOUT, Stream.STDERR}
