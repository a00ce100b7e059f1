import threading
from datetime import timedelta
from pathlib import Path

import pytest

from lab.process import wait_until
from service.app.check_nodes import Part, check_nodes
from service.domain.node import Endpoint, ExecutorKind, Login
from service.domain.script import NotStarted, OutputChunk, ReportState, ScriptKind, Stream
from service.executors.local import LocalExecutor
from service.executors.registry import ExecutorsByKind
from service.executors.ssh.executor import SshExecutor
from tests.executors.ssh.sshd import Sshd
from tests.executors.ssh.support import Heard, executor, now, order, ref, said


def test_a_script_runs_and_its_output_and_end_come_back(sshd: Sshd, ssh: SshExecutor) -> None:
    heard = Heard()

    report = ssh.start(order(sshd.endpoint(), 'echo out; echo err >&2; echo /a >"$UNSTICK_TARGETS"; exit 77'), heard)

    assert (report.state, report.exit_code, report.targets) == (ReportState.FINISHED, 77, ("/a",)), report.reason
    assert (heard.text(), heard.text(Stream.STDERR)) == (b"out\n", b"err\n")
    assert report.boot_id == sshd.boot_id


class Answering(Heard):
    """Touches a file when something is heard."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def __call__(self, chunk: OutputChunk) -> None:
        super().__call__(chunk)
        self._file.touch()


def test_output_is_heard_while_the_script_runs(sshd: Sshd, ssh: SshExecutor, tmp_path: Path) -> None:
    # The script ends only when its first line was heard here.
    script = f"echo first; until [ -e {tmp_path}/heard ]; do sleep 0.05; done; echo second"

    report = ssh.start(order(sshd.endpoint(), script), heard := Answering(tmp_path / "heard"))

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert heard.text() == b"first\nsecond\n"


def test_every_byte_arrives_as_it_was_written(sshd: Sshd, ssh: SshExecutor) -> None:
    script = "printf 'caf\\351 \\360\\220\\215\\210 \\000\\r\\033[31m'; printf '\\n'"

    report = ssh.start(order(sshd.endpoint(), script), heard := Heard())

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert heard.text() == b"caf\xe9 \xf0\x90\x8d\x88 \x00\r\x1b[31m\n"


def test_noise_of_the_login_shell_is_not_taken_for_output(tmp_path: Path, ssh: SshExecutor) -> None:
    folder = tmp_path / "sshd"
    home = folder / "home"
    home.mkdir(parents=True)
    # bash reads it also when sshd starts it for one command.
    noise = (
        "echo welcome to gpu-05; printf '\\033]3008;start=1\\033\\\\'; echo unstick x '{}' >&2; printf 'no line end'\n"
    )
    (home / ".bashrc").write_text(noise)
    with Sshd(folder, settings=[f"SetEnv HOME={home}"]) as machine:
        report = ssh.start(order(machine.endpoint(), "echo 3"), heard := Heard())

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert heard.text() == b"3\n"


def test_s06_there_is_no_terminal_no_input_and_nothing_of_the_order_in_a_command_line(
    sshd: Sshd, ssh: SshExecutor
) -> None:
    script = """
        PARAM_SECRET=canary-7391
        for name in 0 1 2; do [ ! -t $name ] || echo terminal; done
        cat
        grep -al canary-73''91 /proc/[0-9]*/cmdline || true
        env | grep -c '^SSH_' || true
        """

    report = ssh.start(order(sshd.endpoint(), script), heard := Heard())

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert heard.text() == b"0\n"


def test_a_child_that_keeps_a_stream_open_does_not_hold_the_worker(
    sshd: Sshd, ssh: SshExecutor, tmp_path: Path
) -> None:
    script = f"sleep 300 & echo ok; until [ -e {tmp_path}/heard ]; do sleep 0.05; done"
    sent = order(sshd.endpoint(), script, timeout=timedelta(seconds=120))

    report = ssh.start(sent, heard := Answering(tmp_path / "heard"))

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert heard.text() == b"ok\n"
    assert "Stream still open" in report.reason


def test_a_script_that_hangs_is_ended_by_the_node_at_its_deadline(sshd: Sshd, ssh: SshExecutor) -> None:
    report = ssh.start(order(sshd.endpoint(), "echo go; sleep 300", timeout=timedelta(seconds=2)), Heard())

    assert (report.state, report.signal, report.ended_by_us) == (ReportState.FINISHED, 15, True), report.reason


def test_the_same_order_twice_at_once_runs_once(sshd: Sshd, ssh: SshExecutor, tmp_path: Path) -> None:
    sent = order(sshd.endpoint(), f"echo x >>{tmp_path}/count; sleep 1; echo done")
    heard = [Heard(), Heard()]
    reports: list[object] = []
    threads = [
        threading.Thread(target=lambda which=which: reports.append(said(ssh.start(sent, which)))) for which in heard
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert reports == [(ReportState.FINISHED, None, 0)] * 2
    assert [which.text() for which in heard] == [b"done\n"] * 2
    assert (tmp_path / "count").read_text() == "x\n"


def test_another_executor_settles_and_stops_what_this_one_started(sshd: Sshd, ssh: SshExecutor) -> None:
    sent = order(sshd.endpoint(), "echo line; sleep 300", timeout=timedelta(seconds=120))
    thread = threading.Thread(target=lambda: ssh.start(sent, started))
    started, second = Heard(), Heard()
    other = executor()

    thread.start()
    wait_until(lambda: bool(started.chunks), "its line is heard")
    running = other.settle(ref(sent, wait=timedelta(seconds=1)), second)
    stopped = other.stop(ref(sent), Heard())
    thread.join(60)
    other.close()

    assert said(running) == (ReportState.RUNNING, None, None), running.reason
    assert second.text() == b"line\n"
    assert (stopped.state, stopped.signal, stopped.ended_by_us) == (ReportState.FINISHED, 15, True), stopped.reason
    assert not thread.is_alive()


def test_an_acting_script_is_bound_to_the_boot_that_was_seen(sshd: Sshd, ssh: SshExecutor, tmp_path: Path) -> None:
    def acting(boot_id: str) -> tuple[object, object, object]:
        sent = order(sshd.endpoint(), f"echo x >>{tmp_path}/count", acting=True, kind=ScriptKind.RUN, boot_id=boot_id)
        return said(ssh.start(sent, Heard()))

    other = acting("00000000-0000-4000-8000-000000000000")
    same = acting(sshd.boot_id)

    assert other == (ReportState.NOT_STARTED, NotStarted.OTHER_BOOT, None)
    assert same == (ReportState.FINISHED, None, 0)
    assert (tmp_path / "count").read_text() == "x\n"


class OurClock:
    """The clock of this machine."""

    def __init__(self) -> None:
        self.ids = 0

    def now(self) -> object:
        return now()

    def new_id(self) -> str:
        self.ids += 1
        return f"check-{self.ids}-{now().timestamp():.0f}"


def test_nodes_are_checked_over_the_same_way_as_scripts_go(sshd: Sshd, ssh: SshExecutor) -> None:
    executors = ExecutorsByKind(local=LocalExecutor(), ssh=ssh)
    endpoints = [
        sshd.endpoint(name="good"),
        sshd.endpoint(name="away", port=1),
        sshd.endpoint(name="normal-user", user="alice", login=Login.ROOT),
        Endpoint("aws", ExecutorKind.SSM, "i-0123456789abcdef0"),
    ]

    rows = list(check_nodes(endpoints, executors, clock=OurClock(), service_id="test"))  # type: ignore[arg-type]

    assert [(row.node, row.failed) for row in rows] == [
        ("good", None), ("away", Part.REACHED), ("normal-user", Part.LOGIN), ("aws", Part.REACHED),
    ]  # fmt: skip
    assert "aws is reached by SSM, which is not spoken here." in rows[3].why
    executors.close()


@pytest.mark.parametrize("kind", list(ExecutorKind))
def test_every_kind_of_endpoint_has_its_executor(kind: ExecutorKind) -> None:
    local, ssh = LocalExecutor(), executor()
    executors = ExecutorsByKind(local=local, ssh=ssh)

    found = executors.of(Endpoint("x", kind, "x"))

    expected = {ExecutorKind.LOCAL: LocalExecutor, ExecutorKind.SSH: SshExecutor}
    assert isinstance(found, expected[kind]) if kind in expected else found not in (local, ssh)
    executors.close()
