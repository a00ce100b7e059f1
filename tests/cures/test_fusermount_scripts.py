"""Each script of fusermount-over-ssm as it is sent, against mounts of this kernel in a private mount namespace."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.private import PrivateMounts
from lab.process import wait_until
from lab.stuck import FuseMount, MountOptions, StuckConnection
from service.app.load_runbooks import RunbookFolder
from service.domain.plan import check_params, param_text
from service.domain.runbook import Runbook
from service.domain.script import ScriptKind, render
from tests.support.fake_node import Said
from tests.support.world import RUNBOOKS

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

CHECK, RUN, VERIFY = ScriptKind.CHECK, ScriptKind.RUN, ScriptKind.VERIFY
#: Only stops a hang.
SECONDS = 600


@dataclass
class Place:
    """A private mount namespace on which scripts are played, with a file system type that no other test has."""

    mounts: PrivateMounts
    folder: Path
    fstype: str
    runbook: Runbook
    path: str = "/usr/sbin:/usr/bin:/sbin:/bin"

    def options(self, **more: object) -> MountOptions:
        return MountOptions(**{"fstype": self.fstype, **more})  # type: ignore[arg-type]

    def gone(self, *, mountpoint: str | None = None) -> FuseMount:
        """Mount, and let the server die while nobody waits."""
        made = FuseMount(self.mounts, self.options(), mountpoint=mountpoint)
        made.kill_server()
        return made

    def play(self, step: str, kind: ScriptKind, targets: tuple[str, ...] = (), **params: object) -> Said:
        body = self.runbook.step(step).script(kind)
        assert body is not None
        given = check_params(self.runbook, {"hold_seconds": 3, "fstype": self.fstype, **params})
        environment = {f"PARAM_{name.upper()}": param_text(value) for name, value in given.items()}
        script = render(prelude=self.runbook.prelude, body=body, environment=environment | {"NODE_NAME": "gpu-01"})
        file = self.folder / "targets"
        file.write_text("".join(f"{target}\n" for target in targets))
        said = subprocess.run(
            [*self.mounts.enter_prefix, "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": self.path, "UNSTICK_TARGETS": str(file)},
            cwd="/",
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Said(said.returncode, said.stdout, tuple(file.read_text().splitlines()))

    def without_fusermount(self) -> None:
        """Leave the scripts all programs but these two."""
        programs = self.folder / "programs"
        programs.mkdir()
        for folder in ("/usr/bin", "/usr/sbin"):
            for program in Path(folder).iterdir():
                link = programs / program.name
                if not program.name.startswith("fusermount") and not link.is_symlink():
                    link.symlink_to(program)
        self.path = str(programs)


@pytest.fixture
def place(private_mounts: PrivateMounts, tmp_path: Path) -> Place:
    runbook = RunbookFolder(RUNBOOKS).get("fusermount-over-ssm")[0]
    return Place(private_mounts, tmp_path, f"fuse.t{os.urandom(4).hex()}", runbook)


def paths(said: Said) -> list[str]:
    return [target.split()[13] for target in said.targets]


def test_a_path_with_odd_signs_is_named_as_people_write_it_and_taken_away(place: Place) -> None:
    mountpoint, escaped = f"{place.mounts.folder}/a 1\\b", f"{place.mounts.folder}/a\\0401\\134b"
    with FuseMount(place.mounts, place.options(), mountpoint=mountpoint) as mount:
        elsewhere = place.play("unmount-idle", CHECK, mountpoint=f"{place.mounts.folder}/a")
        check = place.play("unmount-idle", CHECK, mountpoint=mountpoint)
        run = place.play("unmount-idle", RUN, check.targets, mountpoint=mountpoint)
        verify = place.play("unmount-idle", VERIFY, check.targets, mountpoint=mountpoint)

        assert elsewhere.code == 77
        assert elsewhere.output == f"no FUSE file system is mounted at {place.mounts.folder}/a\n"
        assert (check.code, paths(check)) == (0, [escaped])
        assert (run.code, run.output) == (0, f"fusermount3 -u {mountpoint}\n")
        assert (verify.code, mount.exists()) == (0, False)


def test_where_no_fusermount_is_the_node_s_umount_does_it(place: Place) -> None:
    place.without_fusermount()
    with place.gone() as mount:
        check = place.play("unmount-gone", CHECK)
        run = place.play("unmount-gone", RUN, check.targets)
        verify = place.play("unmount-gone", VERIFY, check.targets)

        assert (check.code, paths(check), run.code) == (0, [mount.mountpoint], 0)
        assert f"umount {mount.mountpoint} as /proc/" in run.output
        assert (verify.code, mount.exists()) == (0, False)


def test_an_aborted_mount_that_a_file_keeps_goes_lazily_and_is_not_called_gone_before_it_is(place: Place) -> None:
    mounted = FuseMount(place.mounts, place.options())
    user = mounted.read("ok", command=("sh", "-c", "exec 3<{file}; exec sleep 600"))
    wait_until(lambda: Path(f"/proc/{user}/fd/3").exists(), "the file is open")
    mounted.kill_server()
    with mounted as mount:
        check = place.play("unmount-gone", CHECK)
        run = place.play("unmount-gone", RUN, check.targets)
        kept = place.play("unmount-gone", VERIFY, check.targets)
        place.mounts.kill(user)
        wait_until(lambda: not mount.exists(), "the connection ends with the last open file")
        verify = place.play("unmount-gone", VERIFY, check.targets)

        assert (check.code, run.code) == (0, 0)
        assert run.output.startswith(f"aborted connection {mount.connection}\nfusermount3 -u {mount.mountpoint}\n")
        assert not mount.listed()
        assert (kept.code, f"connection {mount.connection} still exists" in kept.output) == (77, True)
        assert verify.code == 0


def test_a_mount_that_came_after_the_look_is_left_alone_and_named(place: Place) -> None:
    with place.gone() as first:
        check = place.play("unmount-gone", CHECK)
        with place.gone() as later:
            run = place.play("unmount-gone", RUN, check.targets)

            assert f"left alone, not approved: connection {later.connection} since " in run.output
            assert (run.code, first.listed(), later.listed()) == (0, False, True)
            again = place.play("unmount-gone", RUN, check.targets)
            assert (again.code, again.output.splitlines()[-1]) == (77, "no mount that was approved is left")


def test_a_number_and_a_path_that_are_given_again_are_another_mount(place: Place) -> None:
    with place.gone() as first:
        check = place.play("unmount-gone", CHECK)
    with place.gone(mountpoint=first.mountpoint) as second:
        run = place.play("unmount-gone", RUN, check.targets)
        verify = place.play("unmount-gone", VERIFY, check.targets)

        assert (run.code, verify.code, second.listed()) == (77, 0, True)


def test_a_type_that_is_never_touched_stays_also_when_it_is_named(place: Place) -> None:
    with FuseMount(place.mounts, MountOptions(fstype="fuse.lxcfs")) as denied:
        params = {"mountpoint": denied.mountpoint, "fstype": ""}
        looks = [place.play(step, CHECK, (), **params) for step in ("unmount-gone", "unmount-idle")]
        verify = place.play("unmount-idle", VERIFY, (), **params)

        assert [(look.code, look.targets) for look in looks] == [(77, ())] * 2
        assert "of a type or at a place that is never touched" in looks[1].output
        assert (verify.code, denied.listed()) == (77, True)


def test_a_mount_that_somebody_waits_for_is_not_idle_and_a_live_one_is_not_abandoned(place: Place) -> None:
    with (
        StuckConnection(place.mounts, place.options(direct=True), kill_server=False, kill_reader=False) as hung,
        FuseMount(place.mounts, place.options()) as healthy,
    ):
        waited = place.play("unmount-idle", CHECK, mountpoint=hung.mountpoint)
        gone = place.play("unmount-gone", CHECK)
        dead = place.play("abort-dead", CHECK, mountpoint=healthy.mountpoint)
        stuck = place.play("abort-hung", CHECK, mountpoint=hung.mountpoint)

        assert (waited.code, gone.code, dead.code) == (77, 77, 77)
        assert f" {hung.reader_pid} dd has it open\n" in waited.output
        assert dead.output == "nobody waits on such a connection\n"
        assert [target.split()[1] for target in stuck.targets] == [str(hung.connection)]


def test_the_evidence_names_mounts_and_who_uses_them(place: Place) -> None:
    with FuseMount(place.mounts, place.options()) as mount:
        user = place.mounts.start("inside", ["sh", "-c", f"cd {mount.mountpoint} && exec sleep 600"])
        inside = Path(f"/proc/{user}/cwd")
        wait_until(lambda: str(inside.readlink()) == mount.mountpoint, "somebody works in it")

        said = place.play("evidence", RUN, mountpoint=mount.mountpoint)

        assert said.code == 0
        assert f" {user} sleep works in it\n" in said.output or f" {user} sh works in it\n" in said.output
        assert "== fusermount: /usr/bin/fusermount3 " in said.output
