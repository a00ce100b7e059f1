import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from lab.process import wait_until
from service.domain.script import NotStarted, Report, ReportState
from service.executors.not_sent import NotSent
from service.executors.retry import Retry
from service.executors.ssh.executor import SshExecutor
from service.executors.ssh.pool import Limits
from tests.executors.ssh.proxy import Proxy
from tests.executors.ssh.sshd import Sshd, make_key
from tests.executors.ssh.support import Heard, executor, order, said
from tests.executors.ssh.test_ssh_lost_link import CutAt


@pytest.fixture
def proxy(sshd: Sshd) -> Iterator[Proxy]:
    with Proxy((sshd.address, sshd.port)) as made:
        yield made


def test_scripts_one_after_the_other_share_a_connection(sshd: Sshd, ssh: SshExecutor, proxy: Proxy) -> None:
    endpoint = sshd.endpoint(address=proxy.address, port=proxy.port)

    reports = [ssh.start(order(endpoint, "true"), Heard()) for _ in range(5)]

    assert [said(report) for report in reports] == [(ReportState.FINISHED, None, 0)] * 5
    assert proxy.accepted == 1


def test_small_packets_leave_at_once(sshd: Sshd, ssh: SshExecutor) -> None:
    with ssh._pool.lease(sshd.endpoint()) as link:
        sock = link.transport.sock
        assert isinstance(sock, socket.socket)
        delayed = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0

    assert not delayed


def test_many_scripts_at_once_stay_below_the_sessions_that_sshd_allows(
    sshd: Sshd, ssh: SshExecutor, proxy: Proxy, tmp_path: Path
) -> None:
    endpoint = sshd.endpoint(address=proxy.address, port=proxy.port)
    # None ends before all of them run.
    together = f"cd {tmp_path}; touch $$; until set -- *; [ $# = 12 ]; do sleep 0.1; done"

    def start(_number: int) -> Report:
        return ssh.start(order(endpoint, together, timeout=timedelta(seconds=60)), Heard())

    with ThreadPoolExecutor(12) as threads:
        reports = list(threads.map(start, range(12)))

    assert [said(report) for report in reports] == [(ReportState.FINISHED, None, 0)] * 12, reports
    assert proxy.accepted == 2


def test_a_connection_that_nobody_uses_is_closed(sshd: Sshd) -> None:
    ssh = executor(limits=Limits(idle_seconds=0.5))
    open_then: list[int] = []

    ssh.start(order(sshd.endpoint(), "echo x"), lambda _: open_then.append(ssh.connections()))
    wait_until(lambda: ssh.connections() == 0, "the idle connection is closed")

    assert open_then == [1]
    ssh.close()


def test_above_the_cap_idle_connections_are_closed(sshd: Sshd) -> None:
    ssh = executor(limits=Limits(connections=2))

    for name in ("a", "b", "c", "d"):
        ssh.start(order(sshd.endpoint(name=name), "true"), Heard())

    assert ssh.connections() == 2
    ssh.close()


def test_after_close_nothing_is_sent_and_no_connection_is_left(sshd: Sshd) -> None:
    ssh = executor()
    ssh.start(order(sshd.endpoint(), "true"), Heard())
    ssh.close()

    report = ssh.start(order(sshd.endpoint(), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.UNREACHABLE, None)
    assert ssh.connections() == 0


class FullSshd:
    """Closes so many fresh connections before their banner, then forwards: sshd above MaxStartups."""

    def __init__(self, target: tuple[str, int], closes: int) -> None:
        self._target, self.left = target, closes
        self.proxy = Proxy(target, "127.0.79.4")
        self.listener = socket.create_server(("127.0.79.4", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.left -= 1
            if self.left < 0:
                self.proxy.adopt(near)
            else:
                near.close()


def test_connections_that_a_full_sshd_drops_are_tried_again(sshd: Sshd, tmp_path: Path) -> None:
    full = FullSshd((sshd.address, sshd.port), closes=7)
    ssh = executor(retry=Retry(sleep=lambda _: None))

    endpoint = sshd.endpoint(address="127.0.79.4", port=full.port)

    report = ssh.start(order(endpoint, f"echo x >>{tmp_path}/count"), Heard())

    full.listener.close()
    full.proxy.close()
    ssh.close()
    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert (tmp_path / "count").read_text() == "x\n"


def test_an_sshd_that_drops_every_connection_is_not_reached_and_nothing_ran(sshd: Sshd) -> None:
    full = FullSshd((sshd.address, sshd.port), closes=1000)
    ssh = executor(retry=Retry(attempts=4, sleep=lambda _: None))

    report = ssh.start(order(sshd.endpoint(address="127.0.79.4", port=full.port), "true"), Heard())

    full.listener.close()
    full.proxy.close()
    ssh.close()
    assert said(report) == (ReportState.NOT_STARTED, NotStarted.UNREACHABLE, None)
    assert "it closes the connection during the SSH handshake" in report.reason
    assert full.left == 1000 - 4


def test_only_what_may_be_mended_by_waiting_is_tried_again() -> None:
    tries: list[int] = []

    def begin() -> None:
        tries.append(1)
        raise NotSent(NotStarted.LOGIN, "No.")

    with pytest.raises(NotSent):
        Retry(sleep=lambda _: None)(begin)

    assert tries == [1]


@pytest.fixture
def jump(own_sshd: Sshd) -> Sshd:
    return own_sshd


def test_a_machine_behind_a_jump_host_is_reached_and_both_are_recognised(
    sshd: Sshd, jump: Sshd, ssh: SshExecutor
) -> None:
    bastion = jump.endpoint(name="bastion")

    report = ssh.start(order(sshd.endpoint(jump=bastion), "exit 3"), Heard())

    assert said(report) == (ReportState.FINISHED, None, 3), report.reason
    assert ssh.connections() == 2


def test_a_jump_host_whose_user_has_no_shell_carries_and_is_still_refused_as_a_node(
    sshd: Sshd, jump: Sshd, ssh: SshExecutor
) -> None:
    bastion = jump.endpoint(name="bastion", user="locked")

    carried = ssh.start(order(sshd.endpoint(jump=bastion), "true"), Heard())
    itself = ssh.start(order(bastion, "true"), Heard())

    assert said(carried) == (ReportState.FINISHED, None, 0), carried.reason
    assert said(itself) == (ReportState.NOT_STARTED, NotStarted.LOGIN, None), itself.reason


def test_the_host_key_of_the_jump_host_is_verified_too(
    sshd: Sshd, jump: Sshd, ssh: SshExecutor, tmp_path: Path
) -> None:
    make_key(tmp_path / "other")
    wrong = " ".join((tmp_path / "other.pub").read_text().split()[:2])

    report = ssh.start(order(sshd.endpoint(jump=jump.endpoint(name="bastion", host_keys=(wrong,))), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.HOST_KEY, None)
    assert "The host key of bastion" in report.reason


def test_a_machine_that_the_jump_host_cannot_reach_is_named(sshd: Sshd, jump: Sshd, ssh: SshExecutor) -> None:
    endpoint = sshd.endpoint(address="127.0.79.9", port=1, jump=jump.endpoint(name="bastion"))

    report = ssh.start(order(endpoint, "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.UNREACHABLE, None)
    assert "gpu-01 (127.0.79.9:1) was not reached: bastion cannot open a way to it" in report.reason


def test_forty_machines_behind_one_jump_host_with_few_startups_are_all_reached(sshd: Sshd, tmp_path: Path) -> None:
    settings = ["MaxStartups 3:30:6"]
    ssh = executor(retry=Retry(seconds=60), limits=Limits(handshakes_per_jump=4))
    with Sshd(tmp_path / "jump", settings=settings) as machine:
        bastion = machine.endpoint(name="bastion")
        endpoints = [sshd.endpoint(name=f"gpu-{number}", jump=bastion) for number in range(40)]
        with ThreadPoolExecutor(40) as threads:
            reports = list(threads.map(lambda endpoint: ssh.start(order(endpoint, "true"), Heard()), endpoints))
        count = machine.log.count("Accepted publickey")
        ssh.close()

    assert [said(report) for report in reports] == [(ReportState.FINISHED, None, 0)] * 40
    assert count == 1


def test_a_jump_host_that_breaks_while_a_script_runs_is_dialled_again(
    sshd: Sshd, jump: Sshd, ssh: SshExecutor, tmp_path: Path
) -> None:
    with Proxy((jump.address, jump.port)) as proxy:
        bastion = jump.endpoint(name="bastion", address=proxy.address, port=proxy.port)
        script = f"echo x >>{tmp_path}/count; echo go; sleep 2; exit 4"

        report = ssh.start(order(sshd.endpoint(jump=bastion), script), CutAt(b"go\n", proxy.cut))

    assert said(report) == (ReportState.FINISHED, None, 4), report.reason
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_goodbye_that_fails_gives_up_the_connection_all_the_same(
    sshd: Sshd, jump: Sshd, ssh: SshExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    us = threading.current_thread()

    def broken() -> None:
        if threading.current_thread() is us:
            raise EOFError

    with ssh._pool.lease(sshd.endpoint(jump=jump.endpoint(name="bastion"))) as link:
        monkeypatch.setattr(link.transport.sock, "close", broken)
        link.close()

    report = ssh.start(order(sshd.endpoint(jump=jump.endpoint(name="bastion")), "exit 5"), Heard())

    assert said(report) == (ReportState.FINISHED, None, 5), report.reason
