"""What the kernel keeps a lying check from, and what a check must still see."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.needs import need_fuse
from lab.private import PrivateMounts
from lab.process import wait_until
from lab.stuck import StuckConnection
from service.domain.node import Confine, Endpoint
from service.domain.script import NotStarted, Reads, Report, ReportState, Stream
from service.executors.local import LocalExecutor
from tests.executors.envelope_place import HERE, Heard, Place, give_run, order
from tests.executors.hostile import HOSTILE, battery

pytestmark = pytest.mark.needs_root

AT = "/run/canary"
NOBODY = 1_234_567  # a user that this machine does not know
FILES = ("file", "moved", "removed", "removed2")


@dataclass
class Scene:
    """A private place with a stuck connection and canaries, and scripts that are started in it."""

    place: Place
    stuck: StuckConnection
    canary: int
    folder: Path

    def start(self, text: str, *, reads: tuple[Reads, ...] = (), **changes: Confine | bool | str) -> tuple[Report, str]:
        """Start a look, confined unless told otherwise; return its report and all that it has printed."""
        heard = Heard()
        endpoint = replace(HERE, **({"confine": Confine.REQUIRED} | changes))  # type: ignore[arg-type]
        names = {
            "at": AT,
            "canary": self.canary,
            "outside": self.place.mounts.holder.pid,
            "abort": f"/sys/fs/fuse/connections/{self.stuck.connection}/abort",
        }
        exports = "".join(f"export {name}={value}\n" for name, value in names.items())
        report = self.place.start(order(exports + text, endpoint=endpoint, reads=reads), heard)
        return report, (heard.text() + heard.text(Stream.STDERR)).decode()

    @contextmanager
    def by(self, executor: LocalExecutor) -> Iterator[None]:
        """Start scripts by another executor meanwhile."""
        own, self.place.executor = self.place.executor, executor
        try:
            yield
        finally:
            self.place.executor = own

    def without(self, *programs: str) -> str:
        """Return a PATH on which these programs are missing."""
        bare = self.folder / "-".join(("without", *programs))
        if not bare.exists():
            bare.mkdir()
            found = {one.name: one for folder in ("/usr/sbin", "/usr/bin") for one in Path(folder).iterdir()}
            for name, program in found.items():
                if not name.startswith(programs):
                    (bare / name).symlink_to(program)
        return str(bare)

    def looks(self) -> list[str]:
        """Return how everything is that a hostile check might touch."""
        run = self.place.mounts.run
        files = run(["find", AT, "/tmp", "-maxdepth", "1", "(", "-name", "*nstick-test*", "-o", "-path", f"{AT}*",
                     ")", "-printf", "%p %y %m %U %s %T@ %l\n"])  # fmt: skip
        mounts = self.mounts()
        status = Path(f"/proc/{self.canary}/stat").read_text().rsplit(")", 1)[1].split()
        about = Path(f"/proc/{self.canary}/oom_score_adj").read_text()
        limits = Path(f"/proc/{self.canary}/limits").read_text()
        cpus = str(os.sched_getaffinity(self.canary))
        waiting = f"waiting {self.stuck.waiting()}"
        return [files.stdout, *mounts, status[0], status[16], about, limits, cpus, waiting]

    def mounts(self) -> list[str]:
        """Return the mounts that a check might change: the root, those below /sys, and the place's own /run.

        Others that the place has inherited come and go meanwhile, also below the machine's /run, which its own covers.
        """
        lines, kept = self.place.mounts.run(["cat", "/proc/self/mountinfo"]).stdout.splitlines(), []
        own = {[line.split()[0] for line in lines if line.split()[4] == "/run"][-1]}
        for line in lines:
            number, parent, _, _, where, *_ = line.split()
            if number in own or parent in own:
                own.add(number)
            if number in own or where == "/" or where.startswith("/sys"):
                kept.append(line)
        return kept


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    need_fuse()
    with ExitStack() as stack:
        mounts = stack.enter_context(PrivateMounts())
        give_run(mounts)
        place = Place(mounts, LocalExecutor())
        place.executor = LocalExecutor(prefix=place.prefix)
        stack.callback(place.close)
        stuck = stack.enter_context(StuckConnection(mounts))
        made = f"mkdir -m 755 {AT} && cd {AT} && mkdir over mounted && mount -t tmpfs none mounted"
        made += " && mknod -m 600 device c 1 3"
        for file in FILES:
            made += f" && echo {file} >{file}"
        assert mounts.run(["sh", "-c", made]).returncode == 0
        canary = mounts.start("canary", ["sleep", "3600"])
        wait_until(lambda: Path(f"/proc/{canary}/comm").read_text() == "sleep\n", "the canary sleeps")
        yield Scene(place, stuck, canary, tmp_path_factory.mktemp("paths"))


def ends(text: str) -> dict[str, bool]:
    """Return of each hostile check whether it did its harm."""
    found = dict(re.findall(r"^(.*): (\d+)$", text, re.MULTILINE))
    return {name: found[name] == "0" for name in HOSTILE}


@pytest.mark.parametrize("way", ["perl", "python3", "controller"])
def test_a_lying_check_touches_nothing(scene: Scene, way: str) -> None:
    # The battery itself needs perl for its raw calls, and calls it by its path.
    path = scene.without("perl") if way == "python3" else HERE.path
    script = battery().replace("perl -e", "/usr/bin/perl -e")
    before = scene.looks()

    report, said = scene.start(script, path=path, keeps_user=way == "controller")

    assert (report.state, report.exit_code, report.reason) == (ReportState.FINISHED, 0, ""), said
    assert [name for name, done in ends(said).items() if done] == []
    assert scene.looks() == before


#: Answers ENOSYS to mount_setattr(2), as a kernel before Linux 5.12 does (seccomp(2)), and becomes what follows.
OLD_KERNEL = """
$filter = pack "H*", "2000000000000000" . "15000001ba010000" . "0600000026000500" . "060000000000ff7f";
syscall(157, 38, 1, 0, 0, 0) == 0 and syscall(317, 1, 0, pack "Sx6P", 4, $filter) == 0 or die $!;
exec { $ARGV[0] } @ARGV;
"""


def test_a_kernel_that_cannot_make_mounts_read_only_is_named_and_its_lying_check_does_little(scene: Scene) -> None:
    script = battery().replace("perl -e", "/usr/bin/perl -e")
    before = scene.looks()
    executor = LocalExecutor(prefix=[*scene.place.prefix, "/usr/bin/perl", "-e", OLD_KERNEL])

    with closing(executor), scene.by(executor):
        required, _ = scene.start("true")
        report, said = scene.start(script, confine=Confine.TRY)

    assert (required.not_started, report.state) == (NotStarted.UNCONFINED, ReportState.FINISHED), said
    assert report.reason == "Unconfined: its mounts are not read-only (Function not implemented)."
    assert [name for name, done in ends(said).items() if done] == ["write in /tmp"]
    assert scene.looks() == before


def test_the_abort_file_of_a_stuck_connection_is_on_a_read_only_file_system(scene: Scene) -> None:
    report, said = scene.start('echo 1 >"$abort"')

    assert (report.exit_code, "Read-only file system" in said) == (1, True), said
    assert scene.stuck.waiting() > 0
    assert scene.stuck.reader_state() == "D"


def test_what_a_look_needs_stays_readable(scene: Scene) -> None:
    reader, helper = scene.stuck.reader_pid, scene.stuck.helper_pid
    text = f"""
cat "${{abort%/abort}}/waiting"
cat /proc/{reader}/task/{reader}/wchan; echo
ls -l /proc/{helper}/fd | grep -c /dev/fuse
grep -c ' - fuse.rclone ' "/proc/$outside/mountinfo"
[ -r /etc/shadow ] && grep -c ^root: /etc/shadow
wc -l < <(cat /proc/self/mountinfo) >/dev/null
head -c 300000 /dev/zero | tr '\\0' x >"$(mktemp)"
wc -c <<<"$(head -c 200000 /dev/zero | tr '\\0' y)"
timeout 0.2 sleep 60 || echo "timeout $?"
echo one >"$UNSTICK_TARGETS"; echo two >>"$UNSTICK_TARGETS"
"""

    report, said = scene.start(text)

    assert (report.exit_code, report.targets) == (0, ("one", "two")), said
    waiting, wchan, *others = said.split("\n")
    assert (int(waiting) > 0, "fuse" in wchan or "request_wait" in wchan or "folio" in wchan) == (True, True), said
    assert others == ["1", "1", "1", "200001", "timeout 124", ""]


@pytest.mark.parametrize("keeps_user", [False, True])
def test_how_a_confined_script_ends_is_told_as_ever(scene: Scene, keeps_user: bool) -> None:
    code, _ = scene.start("exit 77", keeps_user=keeps_user)
    signalled, _ = scene.start("bash -c 'kill -SEGV $$'; echo $?; exec perl -e 'kill 9, $$; sleep 9'")

    assert (code.exit_code, code.signal, code.reason) == (77, None, "")
    assert (signalled.exit_code, signalled.signal) == (None, 9)


@pytest.mark.parametrize("keeps_user", [False, True])
def test_nothing_of_a_confined_script_outlives_it(scene: Scene, keeps_user: bool) -> None:
    mine = f"{4320 + keeps_user}.{os.getpid()}"
    report, said = scene.start(f"setsid sleep {mine} >&- 2>&- & sleep 0.2; echo ended", keeps_user=keeps_user)

    assert (report.exit_code, said) == (0, "ended\n")
    wait_until(lambda: subprocess.run(["pgrep", "-fx", f"sleep {mine}"], check=False).returncode == 1, "it has ended")


def test_where_nothing_can_confine_the_report_says_so(scene: Scene) -> None:
    path = scene.without("perl", "python")

    tried, said = scene.start("id -u", confine=Confine.TRY, path=path)
    required, unsaid = scene.start("id -u", path=path)

    assert (tried.exit_code, said, tried.reason) == (0, "0\n", "Unconfined: neither perl nor python3 is there.")
    assert (required.state, required.not_started, unsaid) == (ReportState.NOT_STARTED, NotStarted.UNCONFINED, "")
    assert "confine: required of gpu-01" in required.reason
    assert "neither perl nor python3 is there" in required.reason


CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print(sys.argv[1])"
SERVE = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); time.sleep(600)"


@pytest.mark.parametrize(
    ("keeps_user", "reads", "code"), [(False, (), 1), (False, (Reads.CONTAINERS,), 0), (True, (), 1)]
)
def test_containers_answer_only_a_step_that_says_that_it_asks_them(
    scene: Scene, keeps_user: bool, reads: tuple[Reads, ...], code: int
) -> None:
    path, mounts = "/run/containerd/containerd.sock", scene.place.mounts
    if not scene.place.file("containerd").exists():
        scene.place.file("containerd").mkdir()
        mounts.start("containerd", ["/usr/bin/python3", "-c", SERVE, path])
        wait_until(lambda: mounts.run(["chmod", "660", path]).returncode == 0, "the socket is there")

    report, said = scene.start(f"/usr/bin/python3 -c '{CONNECT}' {path}", keeps_user=keeps_user, reads=reads)

    assert report.exit_code == code, said


def test_without_root_a_controller_is_confined_and_a_node_says_that_it_is_not(scene: Scene) -> None:
    as_user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    executor = LocalExecutor(prefix=[*scene.place.prefix, *as_user])
    text = f"touch /var/tmp/unstick-{NOBODY}/new; set -- /proc/[0-9]*; echo $#"
    heard = Heard()
    try:
        controller = executor.start(
            order(text, endpoint=replace(HERE, confine=Confine.REQUIRED, keeps_user=True)), heard
        )
        node = executor.start(order("exit 3", endpoint=replace(HERE, confine=Confine.TRY)), Heard())
    finally:
        executor.close()
        theirs = ["pgrep", "--uid", str(NOBODY)]
        wait_until(lambda: subprocess.run(theirs, capture_output=True, check=False).returncode == 1, "all of it ends")
        shutil.rmtree(f"/var/tmp/unstick-{NOBODY}")

    # Of the machine's processes it sees none but itself.
    assert (controller.exit_code, controller.reason, heard.text()) == (0, "", b"1\n")
    assert b"Read-only file system" in heard.text(Stream.STDERR)
    assert node.exit_code == 3
    assert node.reason == "Unconfined: it runs as an ordinary user, whose files and processes it may touch."


def test_a_script_that_acts_is_never_confined(scene: Scene) -> None:
    endpoint: Endpoint = replace(HERE, confine=Confine.REQUIRED)
    heard = Heard()

    from_run = replace(order("id -u; touch /run/acted", endpoint=endpoint), acting=True)
    report = scene.place.start(from_run, heard)

    assert (report.exit_code, heard.text(), scene.place.file("acted").exists()) == (0, b"0\n", True)


def test_each_hostile_check_does_its_harm_where_nothing_confines_it(scene: Scene) -> None:
    """Runs last: it ends the canary and frees the stuck connection."""
    report, said = scene.start(battery(), confine=Confine.OFF)

    assert report.exit_code == 0
    assert [name for name, done in ends(said).items() if not done] == [], said
