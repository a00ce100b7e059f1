"""Each script of enable-linger on a node of files, with a loginctl that answers in every way it is known to."""

from collections.abc import Callable
from pathlib import Path

import pytest

from service.domain.script import ScriptKind
from tests.support.fake_node import FakeNode

CHECK, RUN, VERIFY = ScriptKind.CHECK, ScriptKind.RUN, ScriptKind.VERIFY
ALICE, CAROL = "user alice uid 1000", "user carol uid 1002"
SEMAPHORE = "ipc alice uid 1000 sem 3"
SEM_HEAD = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n"
SEM_ROW = "         0 {id:10}   600          1  {uid:4}  {uid:4}  {uid:4}  {uid:4} 1795984419 1795984419\n"
UNKNOWN_USER = "Failed to get user: User ID 1000 is not logged in or lingering"
#: What loginctl was seen to answer when it did not do it; github.com/systemd/systemd/issues/3365 and /12401,
#: /pull/6829, github.com/flux-framework/flux-core/issues/4107, github.com/hashbang/shell-etc/issues/67.
REFUSALS = (
    "Could not enable linger: Access denied",
    "Could not enable linger: Interactive authentication required.",
    "Could not enable linger: No such process",
    "Could not enable linger: Read-only file system",
    "Could not enable linger: The name org.freedesktop.PolicyKit1 was not provided by any .service files",
    "Failed to look up user alice: No such process",
    "Failed to connect to bus: No such file or directory",
)


class LogindNode:
    """A node with alice, bob and carol, where alice owns a semaphore and carol's service runs outside a login."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: What a loginctl that works does with its last word.
        self.works = f'touch "{folder}/linger/${{@: -1}}"'
        for name in ("linger", "shm", "proc/self/ns", "proc/sysvipc"):
            (folder / name).mkdir(parents=True)
        (folder / "proc/self/ns/ipc").symlink_to("ipc:[1]")
        (folder / "proc/self/loginuid").write_text("4294967295")
        for kind in ("shm", "msg"):
            (folder / "proc/sysvipc" / kind).write_text("       key      shmid perms       size  cpid   uid\n")
        self.semaphores(alice=3)
        self.process(70, uid=1002, group="/system.slice/job.service", comm="python")
        places = {
            "linger_folder=/var/lib/systemd/linger": f"linger_folder={folder}/linger",
            "processes=/proc\n": f"processes={folder}/proc\n",
            "objects_in=(/dev/shm /dev/mqueue)": f"objects_in=({folder}/shm)",
        }
        self.fake = FakeNode(folder, "enable-linger", places=places)
        self.logind(removes="b true", enables=self.works)
        self.fake.has("systemctl", "echo ActiveState=active")
        self.fake.has(
            "getent",
            "case $2 in alice | 1000) echo alice:x:1000:1000::/home/alice:/bin/bash ;;"
            " bob | 1001) echo bob:x:1001:1001::/home/bob:/bin/bash ;;"
            " carol | 1002) echo carol:x:1002:1002::/home/carol:/bin/bash ;; *) exit 2 ;; esac",
        )

    def logind(self, *, removes: str = "b true", enables: str = "", shows: str = "") -> None:
        """Let busctl and loginctl answer; by default Linger is what the file says."""
        self.fake.has("busctl", f"echo '{removes}'" if removes else "echo 'Failed to connect to bus'; exit 1")
        tells = shows or f'[ -e "{self.folder}/linger/$2" ] && echo yes || {{ echo "{UNKNOWN_USER}" >&2; exit 1; }}'
        self.fake.has("loginctl", f'case "$*" in show-user*) {tells} ;; *enable-linger*) {enables or "true"} ;; esac')

    def semaphores(self, **of: int) -> None:
        """Let alice, bob or uid 5000 own one semaphore each, by its number."""
        uids = {"alice": 1000, "bob": 1001, "nameless": 5000, "daemon": 1, "dynamic": 61200}
        rows = [SEM_ROW.format(id=number, uid=uids[name]) for name, number in of.items()]
        (self.folder / "proc/sysvipc/sem").write_text(SEM_HEAD + "".join(rows))

    def process(self, pid: int, *, uid: int, group: str, comm: str, ipc: str = "ipc:[1]") -> None:
        folder = self.folder / "proc" / str(pid)
        (folder / "ns").mkdir(parents=True)
        (folder / "ns/ipc").symlink_to(ipc)
        (folder / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "comm").write_text(f"{comm}\n")
        (folder / "cgroup").write_text(f"4:memory:/x\n0::{group}\n")


@pytest.fixture
def node(tmp_path: Path) -> LogindNode:
    return LogindNode(tmp_path)


def test_who_owns_objects_or_works_outside_a_login_is_at_risk(node: LogindNode) -> None:
    node.semaphores(alice=3, daemon=4, nameless=5, dynamic=6)
    node.process(80, uid=1001, group="/user.slice/user-1001.slice/session-4.scope", comm="bash")
    node.process(81, uid=1001, group="/system.slice/docker-1.scope", comm="python", ipc="ipc:[2]")

    check = node.fake.play("enable", CHECK)

    assert (check.code, check.targets) == (0, (ALICE, CAROL, SEMAPHORE))
    assert "alice (uid 1000) owns 1 objects and runs 0 processes outside a login:\n  sem 3\n" in check.output
    assert "  pid 70 python /system.slice/job.service\n  nothing is left to protect: a job" in check.output
    assert "uid 5000 has no name here: nobody logs in as it\n" in check.output


def test_a_line_break_in_the_name_of_a_process_puts_no_other_user_at_risk(node: LogindNode) -> None:
    node.process(90, uid=1002, group="/system.slice/job.service", comm="x\n1001\t91\tb\t/y")

    check = node.fake.play("enable", CHECK)

    assert (check.code, check.targets) == (0, (ALICE, CAROL, SEMAPHORE))
    assert "bob" not in check.output


def test_files_in_shared_memory_count_by_their_owner_and_inode(node: LogindNode) -> None:
    node.semaphores()
    file = node.folder / "shm" / "sem.a b"
    file.touch()
    uid = file.stat().st_uid
    said = node.fake.shell(f"objects | grep ' file '; is_user {uid} && echo ordinary || echo spared")

    ordinary = "ordinary" if 1000 <= uid < 61184 else "spared"
    assert said.output == f"{uid} file {file.stat().st_ino} {file}\n{ordinary}\n"


@pytest.mark.parametrize(
    ("removes", "users", "code", "targets", "told"),
    [
        ("b false", "", 77, (), "nobody loses anything at logout\n"),
        ("b false", "bob", 0, ("user bob uid 1001",), "the running logind removes IPC: no\n"),
        ("b true", "bob, alice", 0, (ALICE, "user bob uid 1001", SEMAPHORE), "the running logind removes IPC: yes\n"),
        ("b true", "dave", 2, (), "could not look: there is no user dave on this node\n"),
        ("", "", 2, (), "could not look: logind does not say: Failed to connect to bus\nbusctl: exit 1\n"),
        ("s maybe", "bob", 2, (), "could not look: logind says of RemoveIPC: s maybe\n"),
    ],
)
def test_the_running_logind_decides_unless_users_are_named(
    node: LogindNode, removes: str, users: str, code: int, targets: tuple[str, ...], told: str
) -> None:
    node.logind(removes=removes)

    check = node.fake.play("enable", CHECK, users=users)

    assert (check.code, check.targets) == (code, targets)
    assert told in check.output


def test_who_lingers_already_is_no_target_and_all_is_well(node: LogindNode) -> None:
    for name in ("alice", "carol"):
        (node.folder / "linger" / name).touch()

    check = node.fake.play("enable", CHECK)
    verify, well = node.fake.play("enable", VERIFY), node.fake.play("well", VERIFY)

    assert (check.code, check.targets) == (77, ())
    assert check.output.endswith("everybody concerned lingers already\n")
    assert (verify.code, well.code, well.output) == (0, 0, "the next logout deletes nothing\n")
    assert node.fake.calls("enable-linger") == []


def test_a_file_that_the_running_logind_does_not_know_is_no_linger(node: LogindNode) -> None:
    node.logind(shows=f'echo "{UNKNOWN_USER}" >&2; exit 1')
    (node.folder / "linger/alice").touch()

    check = node.fake.play("enable", CHECK, users="alice")

    assert (check.code, check.targets[:1]) == (0, (ALICE,))


def test_each_user_is_named_and_read_back(node: LogindNode) -> None:
    check = node.fake.play("enable", CHECK)
    run, verify = node.fake.play("enable", RUN, check.targets), node.fake.play("enable", VERIFY, check.targets)

    assert node.fake.calls("enable-linger") == [
        "loginctl --no-ask-password enable-linger alice",
        "loginctl --no-ask-password enable-linger carol",
    ]
    assert (run.code, run.output) == (0, "asked logind to let alice linger\nasked logind to let carol linger\n")
    assert (verify.code, verify.output.splitlines()[0]) == (0, "alice: a linger file, lingers: yes")
    assert node.fake.play("enable", RUN, check.targets).code == 77


@pytest.mark.parametrize("text", REFUSALS)
def test_each_refusal_is_kept_as_it_is_and_never_taken_for_done(node: LogindNode, text: str) -> None:
    node.logind(enables=f"{{ echo '{text}' >&2; exit 1; }}")

    run = node.fake.play("enable", RUN, (ALICE, SEMAPHORE))
    verify = node.fake.play("enable", VERIFY, (ALICE, SEMAPHORE))

    assert (run.code, run.output) == (2, f"{text}\nloginctl: exit 1\n")
    assert (verify.code, verify.output.splitlines()[0]) == (77, "alice: no linger file, lingers: no")


def test_one_refusal_does_not_keep_the_others_from_lingering(node: LogindNode) -> None:
    node.logind(enables=f'[ "${{@: -1}}" != alice ] && {node.works} || exit 1')

    run = node.fake.play("enable", RUN, (ALICE, CAROL))

    assert (run.code, run.output) == (2, "loginctl: exit 1\nasked logind to let carol linger\n")


def _says_no(node: LogindNode) -> None:
    node.logind(shows="echo no", enables=node.works)


def _says_nothing(node: LogindNode) -> None:
    node.logind(enables="true")


def _cannot_say(node: LogindNode) -> None:
    node.logind(shows="echo 'Connection timed out' >&2; exit 1", enables=node.works)


@pytest.mark.parametrize(
    ("answers", "code", "told"),
    [
        (_says_no, 77, "alice: a linger file, lingers: no"),
        (_says_nothing, 77, "alice: no linger file, lingers: no"),
        (_cannot_say, 2, "could not look: Connection timed out"),
    ],
)
def test_an_exit_0_of_loginctl_proves_nothing(
    node: LogindNode, answers: Callable[[LogindNode], None], code: int, told: str
) -> None:
    answers(node)

    run = node.fake.play("enable", RUN, (ALICE,))
    verify = node.fake.play("enable", VERIFY, (ALICE,))

    assert (run.code, verify.code, verify.output.splitlines()[0]) == (0, code, told)


def test_a_name_that_was_given_to_another_is_left_alone(node: LogindNode) -> None:
    run = node.fake.play("enable", RUN, ("user alice uid 1111",))

    assert (run.code, run.output) == (77, "left alone: alice is not uid 1111 any more\n")


def test_a_user_who_came_to_be_at_risk_after_the_look_is_left_alone_and_named(node: LogindNode) -> None:
    check = node.fake.play("enable", CHECK)
    node.semaphores(alice=3, bob=4)

    node.fake.play("enable", RUN, check.targets)
    verify, well = node.fake.play("enable", VERIFY, check.targets), node.fake.play("well", VERIFY)

    assert (verify.code, well.code, well.output) == (0, 77, "still at risk:\nuser bob uid 1001\n")
    named = node.fake.play("well", VERIFY, users="alice")
    assert (named.code, named.output) == (
        0,
        "not asked for, and at risk at their next logout:\nuser bob uid 1001\n",
    )


def test_what_is_gone_is_named_and_only_a_restart_of_the_job_helps(node: LogindNode) -> None:
    check = node.fake.play("enable", CHECK, users="alice")
    node.semaphores()

    node.fake.play("enable", RUN, check.targets)
    verify = node.fake.play("enable", VERIFY, check.targets)

    assert verify.code == 0
    assert verify.output.startswith(
        "gone since the look: sem 3 of alice\nlinger does not bring it back: a job that still needs it"
        " (ENOENT, EINVAL, EIDRM) must be restarted\n"
    )


def test_a_look_that_came_in_by_the_login_of_such_a_user_says_so(node: LogindNode) -> None:
    (node.folder / "proc/self/loginuid").write_text("1001")

    check = node.fake.play("enable", CHECK)

    assert check.output.endswith(
        "this look came in by the login of bob, who does not linger: its end may be the fault; log in as root\n"
    )


def test_the_evidence_is_taken_also_where_much_of_it_is_missing(node: LogindNode) -> None:
    node.logind(removes="")
    node.fake.has("journalctl", "exit 1")
    node.fake.has("systemd-analyze", "printf '# c\\n[Login]\\n#RemoveIPC=yes\\nRemoveIPC=no\\n'")

    said = node.fake.play("evidence", RUN)

    assert said.code == 0
    assert "\nRemoveIPC=no\n== who is logged in" in said.output
    assert "\n1000 sem 3\n== work outside a login" in said.output
    assert "\n1002 70 python /system.slice/job.service\n" in said.output
