"""Over SSH a script has the shell and the strictness that the runbook reference promises."""

from dataclasses import replace

import pytest

from service.domain.script import ReportState
from service.executors.ssh.executor import SshExecutor
from tests.executors.shells import BODIES, rendered
from tests.executors.ssh.sshd import Sshd
from tests.executors.ssh.support import Heard, order, said


@pytest.mark.parametrize(("body", "code", "printed"), BODIES)
def test_a_failure_in_the_middle_is_the_end_and_the_shell_is_bash(
    sshd: Sshd, ssh: SshExecutor, body: str, code: int, printed: bytes
) -> None:
    given = replace(order(sshd.endpoint(), ""), text=rendered(body))

    report = ssh.start(given, heard := Heard())

    assert (said(report), heard.text()) == ((ReportState.FINISHED, None, code), printed)
