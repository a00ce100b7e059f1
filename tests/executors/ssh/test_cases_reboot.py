"""A node loses its power under a script, with neither FIN nor RST, and comes up again: nobody hangs, and it is told."""

from datetime import timedelta
from pathlib import Path

import pytest

from service.domain.script import ReportState
from tests.executors.ssh.proxy import Proxy
from tests.executors.ssh.sshd import Sshd
from tests.executors.ssh.support import IMPATIENT, PERSISTENT, executor, order, said
from tests.executors.ssh.test_ssh_lost_link import CutAt


@pytest.mark.parametrize("jumps", [False, True], ids=["direct", "through a jump host"])
def test_a_node_that_loses_its_power_under_a_script_is_told_as_booted_when_it_is_back(
    sshd: Sshd, own_sshd: Sshd, tmp_path: Path, jumps: bool
) -> None:
    ssh = executor(patience=IMPATIENT, persistence=PERSISTENT)
    with Proxy((own_sshd.address, own_sshd.port)) as proxy:
        bastion = sshd.endpoint(name="bastion") if jumps else None
        endpoint = own_sshd.endpoint(address=proxy.address, port=proxy.port, jump=bastion)
        heard = CutAt(b"go\n", proxy.freeze, own_sshd.reboot, proxy.thaw)
        script = f"echo x >>{tmp_path}/count; echo go; sleep 60"

        report = ssh.start(order(endpoint, script, timeout=timedelta(seconds=90)), heard)
        ssh.close()

    assert said(report) == (ReportState.REBOOTED, None, None), report.reason
    assert report.reason == (
        "gpu-01 has booted since the order was sent; what the script had done by then cannot be known from it."
    )
    assert (tmp_path / "count").read_text() == "x\n"
