from service.domain.script import ReportState, Stream
from service.executors.ssh.executor import SshExecutor
from tests.executors.ssh.sshd import Sshd
from tests.executors.ssh.support import Heard, order


def test_a_script_runs_and_its_output_and_end_come_back(sshd: Sshd, ssh: SshExecutor) -> None:
    heard = Heard()

    report = ssh.start(order(sshd.endpoint(), 'echo out; echo err >&2; echo /a >"$UNSTICK_TARGETS"; exit 77'), heard)

    assert (report.state, report.exit_code, report.targets) == (ReportState.FINISHED, 77, ("/a",)), report.reason
    assert (heard.text(), heard.text(Stream.STDERR)) == (b"out\n", b"err\n")
    assert report.boot_id == sshd.boot_id
