"""RemoveIPC on a booted node: a job's semaphores are really lost at a logout, and kept once its user lingers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.nodes import Node
from lab.process import wait_until
from service.domain.node import ExecutorKind, Login
from service.domain.run import GateState
from service.domain.script import ScriptKind
from tests.cures.cure import Cure, by_each, ending, outcomes

pytestmark = pytest.mark.needs_root

#: A job as a scheduler starts it: of alice, and in no login. It takes and gives back a System V semaphore and
#: looks for its POSIX one, which is a file of this name (sem_overview(7)), until one of them is lost.
JOB = r"""
my $id = semget(0, 1, 0600 | 01000) // die "no semaphore: $!";
open(my $made, ">", "/dev/shm/sem.nccl") or die "no semaphore: $!";
close $made;
$| = 1;
print "works\n";
while (1) {
  for my $by (1, -1) { semop($id, pack("s!3", 0, $by, 0)) or do { print "LOST $!\n"; exit 3 }; }
  -e "/dev/shm/sem.nccl" or do { print "LOST $!\n"; exit 3 };
  select(undef, undef, undef, 0.05);
}
"""
LOGIND = "[Login]\nUserStopDelaySec=0\n"


class Job:
    """The job of alice, on the node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        script = node.root / node.folder.lstrip("/") / "job.pl"
        script.write_text(JOB)
        script.chmod(0o644)

    def start(self) -> None:
        unit = ["--unit=job", "--uid=alice", "--property=StandardOutput=truncate:/run/job.out"]
        started = self._node.run(["systemd-run", "--quiet", *unit, "perl", f"{self._node.folder}/job.pl"])
        assert started.returncode == 0, started.stderr
        wait_until(lambda: self.output() != "", "the job has its semaphores")

    def output(self) -> str:
        file = self._node.root / "run/job.out"
        return file.read_text() if file.exists() else ""

    def lives(self) -> bool:
        return self._node.run(["systemctl", "is-active", "job"]).stdout == "active\n"

    def end(self) -> None:
        self._node.run(["systemctl", "stop", "job"])
        self._node.run(["systemctl", "reset-failed", "job"])
        self._node.run(["ipcrm", "--all"])
        # Its words too: those of the next job are waited for.
        self._node.run(["rm", "-f", "/dev/shm/sem.nccl", "/run/job.out"])


def objects(node: Node) -> dict[str, list[str]]:
    """Return what alice owns: System V semaphores and what lies in /dev/shm."""
    rows = [line.split() for line in node.run(["cat", "/proc/sysvipc/sem"]).stdout.splitlines()[1:]]
    alice = node.run(["id", "-u", "alice"]).stdout.strip()
    files = node.run(["find", "/dev/shm", "-user", "alice", "-printf", "%f\n"]).stdout.split()
    return {"sem": [row[1] for row in rows if row[4] == alice], "files": files}


def as_found(node: Node) -> dict[str, object]:
    """Return all that this runbook could change."""
    lingers = sorted(path.name for path in (node.root / "var/lib/systemd/linger").glob("*"))
    users = node.run(["loginctl", "list-users", "--no-legend"]).stdout.splitlines()
    # Root is there while our own connection is.
    return {"lingers": lingers, "users": [user for user in users if "root" not in user], "objects": objects(node)}


def log_in_and_out(node: Node) -> None:
    """Let alice look at the node, as a person who debugs would, and wait until logind has let her go."""
    assert node.ssh("true", user="alice").returncode == 0

    def let_go() -> bool:
        said = node.run(["loginctl", "show-user", "alice", "--property=State", "--value"])
        return said.returncode != 0 or said.stdout == "lingering\n"

    wait_until(let_go, "logind has finished the login of alice")


@pytest.fixture(autouse=True)
def _at_once(node: Node) -> None:
    """Let logind clean up at once instead of after ten seconds, and let nobody linger."""
    drop_in = node.root / "etc/systemd/logind.conf.d/lab.conf"
    if not drop_in.exists():
        drop_in.parent.mkdir(exist_ok=True)
        drop_in.write_text(LOGIND)
        assert node.run(["systemctl", "restart", "systemd-logind"]).returncode == 0
    for lingers in (node.root / "var/lib/systemd/linger").glob("*"):
        node.run(["loginctl", "disable-linger", lingers.name])
    # Who was there only because he lingered is ended now, and that too deletes what he owns.
    wait_until(lambda: node.run(["loginctl", "show-user", "alice"]).returncode != 0, "logind has let go of alice")


@pytest.fixture
def job(node: Node) -> Iterator[Job]:
    """Give the job, at work."""
    made = Job(node)
    made.start()
    yield made
    made.end()


@by_each
def test_without_linger_a_logout_destroys_the_semaphores_and_with_it_they_stay(
    cure: Cure, node: Node, job: Job
) -> None:
    log_in_and_out(node)
    wait_until(lambda: not job.lives(), "the job has lost its semaphores")
    wait_until(lambda: objects(node) == {"sem": [], "files": []}, "logind has removed all of them")
    assert job.output().split()[:2] == ["works", "LOST"]
    job.end()
    job.start()
    kept = objects(node)

    run = cure.request("enable-linger")
    node_run = cure.end(run)
    log_in_and_out(node)

    assert (ending(node_run), outcomes(node_run)) == (
        ("succeeded", "cured"),
        {"evidence": "ok", "enable": "changed", "well": "ok"},
    )
    assert [target.split()[:2] for target in cure.targets(run, "enable")] == [
        ["user", "alice"],
        ["ipc", "alice"],
        ["ipc", "alice"],
    ]
    assert "alice: a linger file, lingers: yes\n" in cure.said(run, "enable", kind=ScriptKind.VERIFY)
    assert (objects(node), job.lives()) == (kept, True)
    assert {name: len(found) for name, found in kept.items()} == {"sem": 1, "files": 1}


def test_who_lingers_already_is_well_and_nothing_is_changed(cure: Cure, node: Node, job: Job) -> None:
    node.run(["loginctl", "enable-linger", "alice"])
    before = as_found(node)

    by_name = cure.request("enable-linger", params={"users": "alice"})
    found = cure.request("enable-linger")

    for run in (by_name, found):
        node_run = cure.end(run)
        assert (ending(node_run), cure.gates(run), cure.acted(run)) == (("succeeded", "well"), {}, [])
    assert (as_found(node), job.lives()) == (before, True)


def test_what_was_lost_while_the_gate_was_open_is_named_and_not_called_restored(
    cure: Cure, node: Node, job: Job
) -> None:
    run = cure.request("enable-linger")
    cure.to_gate(run, "enable")
    log_in_and_out(node)
    wait_until(lambda: not job.lives(), "the job has lost its semaphores")
    wait_until(lambda: objects(node) == {"sem": [], "files": []}, "logind has removed all of them")

    node_run = cure.end(run)

    said = cure.said(run, "enable", kind=ScriptKind.VERIFY)
    assert ending(node_run) == ("succeeded", "cured")
    assert "/dev/shm/sem.nccl of alice" in said
    assert "linger does not bring it back: a job that still needs it (ENOENT, EINVAL, EIDRM) must be restarted" in said


def test_the_running_logind_is_asked_and_not_its_files(cure: Cure, node: Node, job: Job) -> None:
    drop_in = node.root / "etc/systemd/logind.conf.d/lab.conf"
    drop_in.write_text(f"{LOGIND}RemoveIPC=no\n")
    try:
        edited = cure.end(cure.request("enable-linger", dry_run=True))
        node.run(["systemctl", "restart", "systemd-logind"])
        restarted = cure.end(cure.request("enable-linger", dry_run=True))
    finally:
        drop_in.write_text(LOGIND)
        node.run(["systemctl", "restart", "systemd-logind"])

    assert outcomes(edited) == {"evidence": "ok", "enable": "would_change", "well": "ok"}
    assert outcomes(restarted) == {"evidence": "ok", "enable": "ok", "well": "ok"}
    assert job.lives()


def test_a_gate_that_is_denied_or_expires_leaves_the_node_as_it_was_found(cure: Cure, node: Node, job: Job) -> None:
    before = as_found(node)

    denied = cure.request("enable-linger")
    after_denial = ending(cure.deny(denied, "enable"))
    expired = cure.request("enable-linger")
    after_expiry = ending(cure.expire(expired, "enable"))

    assert (after_denial, cure.gates(denied)) == (("denied", None), {"enable": GateState.DENIED})
    assert (after_expiry, cure.gates(expired)) == (("expired", None), {"enable": GateState.EXPIRED})
    assert (as_found(node), job.lives()) == (before, True)


def test_a_login_as_the_user_of_the_job_is_refused_before_it_and_the_job_lives_on(
    tmp_path: Path, node: Node, executor: ExecutorKind, job: Job
) -> None:
    cure = Cure.build(
        tmp_path, node, executor=executor, change=lambda endpoint: replace(endpoint, user="alice", login=Login.ROOT)
    )
    before = as_found(node)

    node_run = cure.end(cure.request("enable-linger"))
    cure.close()

    assert (ending(node_run), outcomes(node_run)) == (("failed", None), {"evidence": "failed"})
    assert "fires RemoveIPC" in node_run.results[0].reason
    assert (as_found(node), job.lives()) == (before, True)
