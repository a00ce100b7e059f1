"""When a script is not started, and the proof that it never will be."""

import subprocess
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lab.process import wait_until
from service.domain.node import Become, Endpoint, View
from service.domain.script import NotStarted, Report, ReportState, ScriptOrder
from service.executors.local import LocalExecutor
from tests.executors.envelope_place import HERE, OTHER_BOOT, Heard, Place, acting, order, ref

pytestmark = pytest.mark.needs_root

Outcome = tuple[ReportState, NotStarted | None]
VOID: Outcome = (ReportState.NOT_STARTED, NotStarted.VOID)


def outcome(report: Report) -> Outcome:
    return report.state, report.not_started


def refused(cause: NotStarted) -> Outcome:
    return ReportState.NOT_STARTED, cause


def hours(number: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=number)


@pytest.mark.parametrize("verb", ["settle", "stop"])
def test_a_start_that_comes_after_a_settle_finds_the_door_closed(place: Place, verb: str) -> None:
    given = order(f"touch /run/late-{verb}")

    asked = getattr(place, verb)(ref(given))
    late = place.start(given)
    again = place.settle(ref(given))

    assert [outcome(report) for report in (asked, late, again)] == [VOID, VOID, VOID]
    assert not place.file(f"late-{verb}").exists()


def test_a_settle_closes_the_door_of_a_start_that_died_on_its_way(place: Place) -> None:
    place.start(order("true"))
    given = order("touch /run/died")
    (place.folder / given.attempt_id).mkdir(mode=0o700)

    asked = place.settle(ref(given))
    late = place.start(given)

    assert [outcome(asked), outcome(late)] == [VOID, VOID]
    assert not place.file("died").exists()


def test_starts_and_settles_at_once_agree(place: Place) -> None:
    for number in range(8):
        given = order(f"echo ran >>/run/race-{number}")
        reports: list[Report] = []
        threads = [
            threading.Thread(target=lambda to=reports, of=given: to.append(place.start(of))),
            threading.Thread(target=lambda to=reports, of=given: to.append(place.settle(ref(of)))),
        ]

        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        trace = place.file(f"race-{number}")
        if outcome(reports[0]) == VOID:
            assert (outcome(reports[1]), trace.exists()) == (VOID, False)
        else:
            ends = [(report.state, report.exit_code) for report in reports]
            assert (ends, trace.read_text()) == ([(ReportState.FINISHED, 0)] * 2, "ran\n")


def test_an_order_for_another_boot_is_not_started(place: Place) -> None:
    report = place.start(replace(acting("touch /run/booted"), boot_id=OTHER_BOOT))

    assert outcome(report) == refused(NotStarted.OTHER_BOOT)
    assert "Look again" in report.reason
    assert not place.file("booted").exists()


def test_an_order_that_may_have_come_before_the_boot_is_unknown(place: Place) -> None:
    report = place.start(replace(acting("touch /run/resent"), boot_id=OTHER_BOOT, resend=True))

    assert outcome(report) == (ReportState.REBOOTED, None)
    assert not place.file("resent").exists()


@pytest.mark.parametrize("verb", ["settle", "stop"])
def test_an_attempt_of_another_boot_is_unknown_and_leaves_no_mark(place: Place, verb: str) -> None:
    given = acting("true")

    report = getattr(place, verb)(ref(given, boot_id=OTHER_BOOT))

    assert outcome(report) == (ReportState.REBOOTED, None)
    assert not (place.folder / given.attempt_id).exists()


def test_an_order_that_comes_too_late_is_not_started(place: Place) -> None:
    report = place.start(order("touch /run/too-late", sent_at=hours(-2), not_after=hours(-1)))

    assert outcome(report) == refused(NotStarted.TOO_LATE)
    assert "UTC by its clock, after" in report.reason
    assert not place.file("too-late").exists()


def test_a_copy_that_comes_too_late_attaches(place: Place) -> None:
    given = order("echo in time")
    place.start(given)
    heard = Heard()

    report = place.start(replace(given, not_after=hours(-1)), heard)

    assert (report.state, report.exit_code, heard.text()) == (ReportState.FINISHED, 0, b"in time\n")


@pytest.mark.parametrize(
    ("make", "behind"),
    [(acting, 0.1), (order, 0.1), (order, -0.1)],
    ids=["acts, behind", "looks, behind", "looks, ahead"],
)
def test_a_wrong_clock_starts_nothing(place: Place, make: Callable[..., ScriptOrder], behind: float) -> None:
    report = place.start(make("touch /run/clock", sent_at=hours(behind), not_after=hours(0.2)))

    assert outcome(report) == refused(NotStarted.CLOCK)
    assert "Set the clock" in report.reason
    assert not place.file("clock").exists()


@pytest.mark.parametrize(
    ("make", "behind"),
    [(acting, 0.01), (acting, -1), (order, -0.05)],
    ids=["a little behind", "delivered late", "looked a little late"],
)
def test_other_clocks_do_not_matter(place: Place, make: Callable[..., ScriptOrder], behind: float) -> None:
    report = place.start(make("true", sent_at=hours(behind)))

    assert (report.state, report.exit_code) == (ReportState.FINISHED, 0)


@pytest.mark.parametrize("verb", ["start", "settle", "stop"])
@pytest.mark.parametrize("view", [View.MACHINE, View.BOOT])
def test_a_look_from_another_place_is_no_look(place: Place, view: View, verb: str) -> None:
    given = order("touch /run/seen", endpoint=replace(HERE, view=view))

    report = getattr(place, verb)(given if verb == "start" else ref(given))

    assert outcome(report) == refused(NotStarted.WRONG_VIEW)
    assert f"view: {view}" in report.reason
    assert "PID namespace 4026531836" in report.reason
    assert not (place.folder / given.attempt_id).exists()


def test_another_pid_namespace_is_never_the_machine(place: Place) -> None:
    inside = LocalExecutor(prefix=[*place.prefix, "/usr/bin/unshare", "--pid", "--fork", "--mount-proc"])

    report = inside.start(order("true"), Heard())

    inside.close()
    assert outcome(report) == refused(NotStarted.WRONG_VIEW)


def test_a_held_node_names_its_holder(place: Place) -> None:
    holder = acting("echo here; sleep 100", service_id="other service", timeout=timedelta(seconds=90))
    heard = Heard()
    thread = threading.Thread(target=lambda: place.start(holder, heard))
    thread.start()
    heard.wait_for(b"here")
    second = acting("touch /run/held")

    held = place.start(second)
    again = place.settle(ref(second))
    stopped = place.stop(ref(holder))
    thread.join()
    third = place.start(acting("true"))

    assert outcome(held) == refused(NotStarted.HELD)
    assert f"attempt {holder.attempt_id} of other_service, pid {stopped.pid}" in held.reason
    assert outcome(again) == VOID
    assert not place.file("held").exists()
    assert (third.state, third.exit_code) == (ReportState.FINISHED, 0)


def test_a_script_that_only_looks_does_not_wait_for_the_holder(place: Place) -> None:
    holder = acting("echo here; sleep 100", timeout=timedelta(seconds=90))
    heard = Heard()
    thread = threading.Thread(target=lambda: place.start(holder, heard))
    thread.start()
    heard.wait_for(b"here")

    report = place.start(order("exit 3"))

    place.stop(ref(holder))
    thread.join()
    assert report.exit_code == 3


def test_a_holder_that_never_began_holds_nothing(place: Place) -> None:
    place.start(order("true"))
    dead = acting("touch /run/never")
    (place.folder / dead.attempt_id).mkdir(mode=0o700)
    (place.folder / "acting").write_text(f"{dead.boot_id} service-1 {dead.attempt_id}\n")

    report = place.start(acting("true"))

    assert (report.state, report.exit_code) == (ReportState.FINISHED, 0)
    assert outcome(place.start(dead)) == VOID
    assert not place.file("never").exists()


def test_two_acting_scripts_at_once_never_overlap(place: Place) -> None:
    text = "mkdir /run/inside; sleep 0.2; rmdir /run/inside"
    reports: list[Report] = []

    threads = [threading.Thread(target=lambda: reports.append(place.start(acting(text)))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    ran = [report.exit_code for report in reports if report.state is ReportState.FINISHED]
    others = {outcome(report) for report in reports if report.state is not ReportState.FINISHED}
    assert set(ran) == {0}
    assert others <= {refused(NotStarted.HELD)}


def test_a_full_folder_starts_nothing(own_place: Callable[..., Place]) -> None:
    place = own_place("256k")
    place.start(order("true"))
    place.mounts.run(["sh", "-c", "cat /dev/zero >/run/fill"])
    given = acting("touch /run/ran\n" + "#" * 9000)

    report = place.start(given)
    place.file("fill").unlink()
    late = place.start(given)

    assert outcome(report) == refused(NotStarted.NO_SPACE)
    assert "df /run" in report.reason
    assert outcome(late) == VOID
    assert not place.file("ran").exists()


def test_a_folder_that_fills_up_loses_output_and_no_exit_code(own_place: Callable[..., Place]) -> None:
    place = own_place("256k")
    heard = Heard()

    report = place.start(order("cat /dev/zero >/run/fill || true; seq 20000; exit 7"), heard)

    assert (report.state, report.exit_code, report.truncated) == (ReportState.FINISHED, 7, True)


@pytest.mark.parametrize("what", ["link", "file"])
def test_a_folder_that_is_not_ours_is_refused(own_place: Callable[..., Place], what: str) -> None:
    place = own_place()
    if what == "link":
        place.file("elsewhere").mkdir()
        place.folder.symlink_to("elsewhere")
    else:
        place.folder.touch()

    report = place.start(order("true"))

    assert outcome(report) == refused(NotStarted.FOLDER)
    assert "no symbolic link" in report.reason


class TestWithoutRoot:
    """The folder stands in /var/tmp then, where everybody may write."""

    @pytest.fixture
    def place(self, own_place: Callable[..., Place]) -> Place:
        place = own_place()
        place.mounts.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=1777", "tmpfs", "/var/tmp"])
        user = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        place.executor = LocalExecutor(prefix=[*place.prefix, *user])
        return place

    def root_folder(self, place: Place) -> Path:
        return place.mounts.root / "var/tmp/unstick-65534"

    def test_each_boot_has_a_folder_that_only_its_owner_enters(self, place: Place) -> None:
        given = order("exit 3")

        report = place.start(given)

        folder = self.root_folder(place) / str(report.boot_id)
        modes = [path.stat().st_mode & 0o777 for path in (folder.parent, folder, folder / given.attempt_id)]
        assert (report.exit_code, modes) == (3, [0o700] * 3)
        assert report.facts is not None
        assert report.facts.uid == 65534

    def test_folders_of_an_earlier_boot_are_removed(self, place: Place) -> None:
        old = self.root_folder(place) / OTHER_BOOT / "attempt"
        old.mkdir(parents=True)
        place.mounts.run(["sh", "-c", "chmod 700 /var/tmp/unstick-65534; chown -R 65534 /var/tmp/unstick-65534"])

        report = place.start(order("exit 3"))

        assert (report.exit_code, old.parent.exists()) == (3, False)

    @pytest.mark.parametrize("what", ["foreign", "link", "open"])
    def test_a_folder_that_somebody_laid_out_is_refused(self, place: Place, what: str) -> None:
        folder = self.root_folder(place)
        place.mounts.run(
            {
                "foreign": ["mkdir", "-m", "777", "/var/tmp/unstick-65534"],
                "link": ["sh", "-c", "mkdir -m 700 /var/tmp/x; chown 65534 /var/tmp/x; ln -s x /var/tmp/unstick-65534"],
                "open": ["sh", "-c", "mkdir -m 755 /var/tmp/unstick-65534; chown 65534 /var/tmp/unstick-65534"],
            }[what]
        )

        report = place.start(order("touch /var/tmp/ran"))

        assert folder.exists()
        assert outcome(report) == refused(NotStarted.FOLDER)
        assert not (place.mounts.root / "var/tmp/ran").exists()


class TestPath:
    """Programs are found on the PATH of the login; here it is a folder of the test's own."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "sh").symlink_to("/bin/sh")
        return tmp_path

    def endpoint(self, folder: Path, **changes: object) -> Endpoint:
        return replace(HERE, **{"path": str(folder), **changes})  # type: ignore[arg-type]

    def test_a_node_without_bash_says_so(self, place: Place, folder: Path) -> None:
        report = place.start(order("true", endpoint=self.endpoint(folder)))

        assert outcome(report) == refused(NotStarted.NO_BASH)
        assert "has no bash" in report.reason

    def test_a_node_without_util_linux_says_so(self, place: Place, folder: Path) -> None:
        (folder / "bash").symlink_to("/bin/bash")

        report = place.start(order("true", endpoint=self.endpoint(folder)))

        assert outcome(report) == refused(NotStarted.NO_BASH)
        assert "has no setsid" in report.reason

    def test_a_sudo_that_wants_a_password_is_proof(self, place: Place, folder: Path) -> None:
        self.sudo(folder, 'echo "sudo: a password is required" >&2; exit 1')

        report = place.start(
            order("touch /run/sudo", endpoint=self.endpoint(folder, become=Become.SUDO, path=f"{folder}:/usr/bin:/bin"))
        )

        assert outcome(report) == refused(NotStarted.SUDO)
        assert "needs a password or a tty on gpu-01" in report.reason
        assert not place.file("sudo").exists()

    def test_a_node_without_sudo_says_so(self, place: Place, folder: Path) -> None:
        (folder / "env").symlink_to("/usr/bin/env")

        report = place.start(order("true", endpoint=self.endpoint(folder, become=Become.SUDO)))

        assert outcome(report) == refused(NotStarted.SUDO)

    def test_a_sudo_that_lets_us_through_runs_the_script(self, place: Place, folder: Path) -> None:
        self.sudo(folder, '[ "$1" = -n ] || exit 9; shift; echo "lecture" >&2; exec "$@"')

        report = place.start(
            order("exit 3", endpoint=self.endpoint(folder, become=Become.SUDO, path=f"{folder}:{HERE.path}"))
        )

        assert report.exit_code == 3

    def sudo(self, folder: Path, text: str) -> None:
        (folder / "sudo").write_text(f"#!/bin/sh\n{text}\n")
        (folder / "sudo").chmod(0o755)


def test_finished_folders_are_removed_a_day_later(own_place: Callable[..., Place]) -> None:
    place = own_place()
    looked, acted, young = order("true"), acting("seq 9"), order("true")
    for given in (looked, acted, young):
        place.start(given)
    for given in (looked, acted):
        subprocess.run(["touch", "-d", "25 hours ago", place.folder / given.attempt_id], check=True)
    # Whoever waits for a script looks for what is old after its end.
    wait_until((place.folder / "swept").exists, "the folders were looked at once")
    (place.folder / "swept").unlink()

    place.start(order("true"))

    wait_until(lambda: not (place.folder / looked.attempt_id).exists(), "the old folder is removed")
    acted_folder = place.folder / acted.attempt_id
    wait_until(lambda: not list(acted_folder.glob("stdout.*")), "the old output is removed")
    assert (place.folder / young.attempt_id).exists()
    # Of an acting script the record stays: a settle must never take one that ran for one that did not.
    report = place.settle(ref(acted))
    assert (report.state, report.exit_code) == (ReportState.FINISHED, 0)


def test_a_name_that_is_no_folder_name_is_a_defect(place: Place) -> None:
    with pytest.raises(Exception, match="no folder name"):
        place.start(order("true", attempt_id=f"../{uuid.uuid4().hex}"))
