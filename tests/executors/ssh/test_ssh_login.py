import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from service.domain.node import Become, Login
from service.domain.script import NotStarted, ReportState
from service.executors.ssh.executor import SshExecutor
from tests.executors.ssh.sshd import Sshd, make_key
from tests.executors.ssh.support import PATIENT, Heard, executor, order, said


@pytest.mark.parametrize(
    ("user", "login", "become"),
    [
        ("root", Login.ROOT, Become.NONE),
        ("root", Login.ROOT, Become.SUDO),
        ("unstick", Login.SYSTEM, Become.SUDO),
        ("alice", Login.LINGERING, Become.SUDO),
    ],
)
def test_a_user_that_the_login_rule_allows_acts_as_root(
    sshd: Sshd, ssh: SshExecutor, user: str, login: Login, become: Become
) -> None:
    endpoint = sshd.endpoint(user=user, login=login, become=become)

    report = ssh.start(order(endpoint, "id -un"), heard := Heard())

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert heard.text() == b"root\n"


def test_a_user_who_does_not_become_root_cannot_prove_where_it_looks(sshd: Sshd, ssh: SshExecutor) -> None:
    report = ssh.start(order(sshd.endpoint(user="unstick", login=Login.SYSTEM), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.WRONG_VIEW, None), report.reason


@pytest.mark.parametrize(
    ("user", "login", "rule"),
    [
        ("alice", Login.ROOT, "`login: root` wants uid 0"),
        ("alice", Login.SYSTEM, "`login: system` wants a uid from 1 to 999"),
        ("root", Login.SYSTEM, "`login: system` wants a uid from 1 to 999"),
        ("carol", Login.LINGERING, "`login: lingering` wants /var/lib/systemd/linger/carol"),
        ("unstick", Login.ROOT, "`login: root` wants uid 0"),
    ],
)
def test_any_other_user_is_refused_before_a_script_is_sent(
    sshd: Sshd, ssh: SshExecutor, tmp_path: Path, user: str, login: Login, rule: str
) -> None:
    tmp_path.chmod(0o777)

    report = ssh.start(order(sshd.endpoint(user=user, login=login), f"echo x >>{tmp_path}/count"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.LOGIN, None), report.reason
    assert rule in report.reason
    assert "RemoveIPC" in report.reason
    assert not (tmp_path / "count").exists()


@pytest.mark.parametrize(
    ("logind", "cause"),
    [("echo yes", None), ("echo no", NotStarted.LOGIN), ("echo 'Connection timed out' >&2; exit 1", None)],
)
def test_a_linger_file_counts_unless_the_running_logind_says_no(
    tmp_path: Path, ssh: SshExecutor, logind: str, cause: NotStarted | None
) -> None:
    folder = tmp_path / "sshd"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "loginctl").write_text(f"#!/bin/sh\n{logind}\n")
    (folder / "bin" / "loginctl").chmod(0o755)
    with Sshd(folder, settings=["SetEnv HOME=/nonexistent PATH=/run/bin:/usr/bin:/bin"]) as machine:
        endpoint = machine.endpoint(user="alice", login=Login.LINGERING, become=Become.SUDO)

        report = ssh.start(order(endpoint, "true"), Heard())

    assert report.not_started is cause, report.reason


def test_a_look_that_may_have_done_the_harm_itself_says_so(sshd: Sshd, ssh: SshExecutor) -> None:
    reports = [
        ssh.start(order(sshd.endpoint(user=user, login=login), "true"), Heard())
        for user, login in (("carol", Login.LINGERING), ("alice", Login.SYSTEM), ("alice", Login.ROOT))
    ]

    harmed = "This look was such a login: if it was the last one of carol, they are gone now."
    # Alice lingers, and as root nobody has logged her in.
    assert [harmed in report.reason for report in reports] == [True, False, False]
    assert not any("such a login" in report.reason for report in reports[1:])


def test_a_user_that_cannot_be_root_is_refused_without_logging_in(sshd: Sshd, ssh: SshExecutor) -> None:
    nobody_listens = replace(sshd.endpoint(user="alice", login=Login.ROOT), port=1)

    report = ssh.start(order(nobody_listens, "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.LOGIN, None), report.reason
    assert report.reason.startswith("alice may not be used on gpu-01: `login: root` wants uid 0, because closing the ")


def test_a_user_without_a_shell_is_refused(sshd: Sshd, ssh: SshExecutor) -> None:
    report = ssh.start(order(sshd.endpoint(user="locked", login=Login.SYSTEM), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.LOGIN, None)
    assert "locked has no usable login shell on gpu-01" in report.reason
    assert "not available" in report.reason


def test_sudo_that_wants_a_password_is_a_refusal_and_nothing_ran(sshd: Sshd, ssh: SshExecutor, tmp_path: Path) -> None:
    endpoint = sshd.endpoint(user="erin", login=Login.LINGERING, become=Become.SUDO)

    report = ssh.start(order(endpoint, f"echo x >>{tmp_path}/count"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.SUDO, None)
    assert "sudo needs a password or a tty on gpu-01" in report.reason
    assert not (tmp_path / "count").exists()


@pytest.mark.parametrize(
    "fake",
    [
        "#!/bin/sh\necho 'sudo: a terminal is required to read the password' >&2\nexit 1\n",
        "#!/bin/sh\nwhile read -r line; do :; done\nexit 1\n",
        "#!/bin/sh\nexec sleep 600\n",
    ],
    ids=["terminal", "reads-stdin", "hangs"],
)
def test_a_sudo_of_any_kind_that_lets_nobody_through_is_told_within_seconds(tmp_path: Path, fake: str) -> None:
    ssh = executor(patience=replace(PATIENT, look=8))
    folder = tmp_path / "sshd"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "sudo").write_text(fake)
    (folder / "bin" / "sudo").chmod(0o755)
    with Sshd(folder, settings=["SetEnv HOME=/nonexistent PATH=/run/bin:/usr/bin:/bin"]) as machine:
        endpoint = machine.endpoint(user="unstick", login=Login.SYSTEM, become=Become.SUDO)

        report = ssh.start(order(endpoint, "true"), Heard())

    ssh.close()
    assert said(report) == (ReportState.NOT_STARTED, NotStarted.SUDO, None), report.reason
    assert "sudo needs a password or a tty on gpu-01" in report.reason


def test_a_machine_without_bash_says_so(tmp_path: Path, ssh: SshExecutor) -> None:
    folder = tmp_path / "sshd"
    (folder / "bin").mkdir(parents=True)
    for program in ("sh", "id", "cat", "env", "mkdir", "flock", "base64", "dd", "setsid"):
        (folder / "bin" / program).symlink_to(f"/usr/bin/{program}")
    with Sshd(folder, settings=["SetEnv HOME=/nonexistent PATH=/run/bin"]) as machine:
        report = ssh.start(order(machine.endpoint(), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.NO_BASH, None), report.reason
    assert "bash" in report.reason


def test_a_key_that_is_not_accepted_is_named_and_tried_once(sshd: Sshd, ssh: SshExecutor, tmp_path: Path) -> None:
    key = make_key(tmp_path / "other")
    before = sshd.log.count("Connection from")

    report = ssh.start(order(sshd.endpoint(key_file=str(key)), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.LOGIN, None)
    assert f"gpu-01 does not let root in: its sshd does not accept the key file {key}." in report.reason
    assert sshd.log.count("Connection from") == before + 1


def test_a_server_that_takes_no_keys_says_what_it_takes(tmp_path: Path, ssh: SshExecutor) -> None:
    with Sshd(tmp_path / "sshd", settings=["PubkeyAuthentication no", "PasswordAuthentication yes"]) as machine:
        report = ssh.start(order(machine.endpoint(), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.LOGIN, None)
    assert "its sshd takes no keys, only password" in report.reason


def test_a_server_that_wants_a_second_factor_is_refused(tmp_path: Path, ssh: SshExecutor) -> None:
    settings = ["AuthenticationMethods publickey,password", "PasswordAuthentication yes", "PermitRootLogin yes"]
    with Sshd(tmp_path / "sshd", settings=settings) as machine:
        report = ssh.start(order(machine.endpoint(), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.LOGIN, None)
    assert "its sshd asks for more than a key (password)" in report.reason


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An agent that counts who asks it."""
    asked: list[int] = []
    path = tmp_path / "agent"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(0.2)

        def serve() -> None:
            while listener.fileno() >= 0:
                try:
                    peer, _ = listener.accept()
                except TimeoutError:
                    continue
                except OSError:
                    return
                asked.append(1)
                peer.close()

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        yield asked
    thread.join()


def test_only_the_key_that_was_named_is_offered(tmp_path: Path, ssh: SshExecutor, agent: list[int]) -> None:
    with Sshd(tmp_path / "sshd", settings=["MaxAuthTries 1"]) as machine:
        report = ssh.start(order(machine.endpoint(), "true"), Heard())

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason
    assert agent == []


@pytest.mark.parametrize(
    "settings",
    [
        ["KexAlgorithms diffie-hellman-group14-sha256"],
        ["Ciphers aes256-cbc"],
        ["MACs hmac-sha1", "Ciphers aes256-ctr"],
    ],
    ids=["kex", "cipher", "mac"],
)
def test_a_server_with_old_algorithms_only_is_not_spoken_to(
    tmp_path: Path, ssh: SshExecutor, settings: list[str]
) -> None:
    with Sshd(tmp_path / "sshd", settings=settings) as machine:
        report = ssh.start(order(machine.endpoint(), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.UNREACHABLE, None)
    assert "The sshd of gpu-01 (127.0.79.1) knows none of our algorithms" in report.reason


@pytest.mark.parametrize(
    ("address", "port", "reason"),
    [
        ("127.0.79.3", 1, "connection refused"),
        ("no-such-machine.invalid", 22, "does not resolve"),
    ],
)
def test_a_machine_that_cannot_be_reached_is_named_with_the_cause(
    sshd: Sshd, ssh: SshExecutor, address: str, port: int, reason: str
) -> None:
    report = ssh.start(order(sshd.endpoint(address=address, port=port), "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.UNREACHABLE, None)
    assert reason in report.reason


def test_a_port_where_nobody_speaks_ssh_is_given_up(sshd: Sshd) -> None:
    ssh = executor(patience=replace(PATIENT, handshake=2))
    with socket.create_server(("127.0.79.3", 0)) as mute:
        port = mute.getsockname()[1]

        report = ssh.start(order(sshd.endpoint(address="127.0.79.3", port=port), "true"), Heard())

    ssh.close()
    assert said(report) == (ReportState.NOT_STARTED, NotStarted.UNREACHABLE, None)
    assert "SSH handshake" in report.reason
