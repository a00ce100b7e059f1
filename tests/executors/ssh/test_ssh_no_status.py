"""The streams of a session end and no exit status ever comes: then nothing is known, and nothing is made up."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import paramiko
import pytest

from service.domain.script import NotStarted, ReportState
from service.executors.ssh.executor import Persistence
from tests.executors.ssh.quiet_server import End, QuietServer
from tests.executors.ssh.support import PATIENT, Heard, executor, order, ref, said

SUDO_REFUSES = b"sudo: a password is required\n"
FINISHED = b'unstick %s {"frame":"state","state":"finished","exit_code":0}\n'


def ends_its_streams(channel: paramiko.Channel, _envelope: bytes) -> None:
    """Keep the channel open, as an sshd does while a process outside of it holds it."""
    channel.shutdown_write()


def closes(channel: paramiko.Channel, _envelope: bytes) -> None:
    channel.close()


def closes_in_the_middle_of_a_report(channel: paramiko.Channel, envelope: bytes) -> None:
    channel.sendall(FINISHED[:-2] % envelope[2:34])
    channel.close()


@pytest.mark.parametrize("end", [ends_its_streams, closes, closes_in_the_middle_of_a_report])
def test_a_session_that_ends_without_a_status_is_lost_and_asked_about_and_never_sent_again(
    tmp_path: Path, end: End
) -> None:
    ssh = executor(
        patience=replace(PATIENT, channel=4 if end is ends_its_streams else PATIENT.channel),
        persistence=Persistence(beyond_deadline=10, questions=1, pause=0.1),
    )
    with QuietServer(tmp_path, end) as server:
        sent = order(server.endpoint(), "echo x")
        started = ssh.start(sent, Heard())
        settled = ssh.settle(ref(sent, wait=timedelta(0)), Heard())
        ssh.close()

    lost = (
        "No answer came from gpu-01: the connection was lost. "
        "The script may have run; the node is asked again until it tells how the attempt stands."
    )
    assert [(*said(report), report.reason) for report in (started, settled)] == [
        (ReportState.LOST, None, None, lost),
        (ReportState.LOST, None, None, lost),
    ]
    assert [b"setting verb 'start'" in envelope for envelope in server.envelopes] == [True, False, False]


def test_a_report_that_came_before_counts_though_no_status_follows(tmp_path: Path) -> None:
    ssh = executor()
    with QuietServer(tmp_path, lambda channel, envelope: channel.sendall(FINISHED % envelope[2:34])) as server:
        report = ssh.start(order(server.endpoint(), "echo x"), Heard())
        ssh.close()

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason


@pytest.mark.parametrize("with_status", [True, False])
def test_the_words_of_a_sudo_that_refuses_prove_that_nothing_ran_only_with_its_status(
    tmp_path: Path, with_status: bool
) -> None:
    def refuses(channel: paramiko.Channel, _envelope: bytes) -> None:
        channel.sendall_stderr(SUDO_REFUSES)
        if with_status:
            channel.send_exit_status(1)
        channel.close()

    ssh = executor(persistence=Persistence(beyond_deadline=10, questions=1, pause=0.1))
    with QuietServer(tmp_path, refuses) as server:
        report = ssh.start(order(server.endpoint(sudo=True), "echo x"), Heard())
        ssh.close()

    refused = (ReportState.NOT_STARTED, NotStarted.SUDO, None)
    assert said(report) == (refused if with_status else (ReportState.LOST, None, None)), report.reason
