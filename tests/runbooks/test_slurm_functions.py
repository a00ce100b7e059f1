"""Each script of drain-and-reboot-slurm for the controller, with a scontrol that answers as it is told."""

from pathlib import Path

import pytest

from service.domain.script import ScriptKind
from tests.support.fake_node import FakeNode, Said

CHECK, RUN, VERIFY = ScriptKind.CHECK, ScriptKind.RUN, ScriptKind.VERIFY
GIVEN = "export NODE_SLURM_NAME='{name}' UNSTICK_RUN_ID=r1 UNSTICK_BOOT_ID=old\n"
LINE = "NodeName={name} Arch=x86_64 NodeAddr=192.0.2.1 Version=22.05.8 OS=Linux 6.1 #1 SMP State={state} Partitions=gpu"
TIMES = " BootTime=2026-11-29T01:00:00 SlurmdStartTime=2026-11-29T01:00:30 ExtSensorsTemp=n/s"
OURS = "unstick:r1 {} [root@2026-11-29T01:00:00]"
#: 2026-11-29T01:00:00Z.
DRAINED_AT = 1795914000
JOB = "job {} user ana state {} nodes 2 since 2026-11-29T00:30:00 name train | 2"


class SlurmController:
    """A controller with one node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fake = FakeNode(
            folder, "drain-and-reboot-slurm", places={"devices=/sys/bus/pci/devices": f"devices={folder}/pci"}
        )
        self.fake.has("scontrol", f'case "$1" in show) cat "{folder}/node" ;; esac')
        self.fake.has("squeue", f'cat "{folder}/jobs"')
        self.is_now("IDLE")
        self.jobs()

    def is_now(self, state: str, reason: str = "", *, name: str = "gpu-01", more: str = "") -> None:
        """Let Slurm say this of the node."""
        told = LINE.format(name=name, state=state) + TIMES + (f" Reason={reason}" if reason else "") + more
        (self.folder / "node").write_text(f"{told}\n")

    def jobs(self, *lines: str) -> None:
        """Let these jobs be on the node."""
        (self.folder / "jobs").write_text("".join(f"{line}\n" for line in lines))

    def play(self, step: str, kind: ScriptKind, targets: tuple[str, ...] = (), *, wait: int = 60) -> Said:
        """Run one script for the node gpu-01."""
        return self.shell(self.fake.runbook.step(step).script(kind) or "", targets, wait=wait)

    def shell(self, body: str, targets: tuple[str, ...] = (), *, name: str = "gpu-01", wait: int = 60) -> Said:
        """Run some shell after the prelude."""
        return self.fake.shell(GIVEN.format(name=name) + body, targets, wait_minutes=wait)


@pytest.fixture
def slurm(tmp_path: Path) -> SlurmController:
    return SlurmController(tmp_path)


@pytest.mark.parametrize(
    ("state", "flags"),
    [
        ("IDLE+DRAIN", "IDLE DRAIN"),
        ("MIXED+DRAIN", "MIXED DRAIN"),
        ("DOWN*+DRAIN", "DOWN NOT_RESPONDING DRAIN"),
        ("DOWN+DRAIN+NOT_RESPONDING", "DOWN DRAIN NOT_RESPONDING"),
        ("IDLE+DYNAMIC_NORM+MAINTENANCE+RESERVED+PLANNED", "IDLE DYNAMIC_NORM MAINTENANCE RESERVED PLANNED"),
        ("IDLE+COMPLETING+DRAIN", "IDLE COMPLETING DRAIN"),
        ("IDLE~", "IDLE POWERED_DOWN"),
        ("ALLOCATED#", "ALLOCATED POWERING_UP"),
        ("DOWN^", "DOWN REBOOT_ISSUED"),
        ("IDLE@+DRAIN", "IDLE REBOOT_REQUESTED DRAIN"),
        ("DRAINED*", "IDLE DRAIN NOT_RESPONDING"),
    ],
)
def test_a_state_is_read_as_all_of_its_flags(slurm: SlurmController, state: str, flags: str) -> None:
    slurm.is_now(state)

    assert slurm.shell("slurm_look; slurm_tell").output == f"Slurm: gpu-01 is {flags} \n"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ('fan [7] is "loud" [ana@2026-11-29T01:00:00]', 'fan [7] is "loud"|ana'),
        ("none [root@2026-11-29T01:00:00]", "|root"),
        ("a [root@2026-11-29T01:00:00] Comment=b", "a|root"),
        ("without who and when", "without who and when|"),
    ],
)
def test_a_reason_is_told_from_who_wrote_it(slurm: SlurmController, said: str, reason: str) -> None:
    slurm.is_now("IDLE+DRAIN", said)

    assert slurm.shell('slurm_look; echo "$reason|$reason_by"').output == f"{reason}\n"


@pytest.mark.parametrize("name", ["ALL", "all", "gpu[01-99]", "gpu-01,gpu-02", "", "-w"])
def test_a_name_that_may_mean_many_nodes_is_never_given_to_scontrol(slurm: SlurmController, name: str) -> None:
    said = slurm.shell("slurm_look", name=name)

    assert (said.code, slurm.fake.calls("scontrol")) == (2, [])
    assert said.output == f"could not look: slurm_name of this node is {name}, and that names no single node\n"


def test_an_answer_about_another_node_is_no_look(slurm: SlurmController) -> None:
    slurm.is_now("IDLE", name="gpu-011")

    assert slurm.shell("slurm_look").code == 2


@pytest.mark.parametrize(
    ("state", "reason", "code", "told"),
    [
        ("ALLOCATED", "", 0, "node gpu-01 base UP"),
        ("DOWN+NOT_RESPONDING", "Not responding [slurm@2026-11-29T01:00:00]", 0, "node gpu-01 base DOWN"),
        ("IDLE+DRAIN", "Kill task failed [root@2026-11-29T01:00:00]", 77, "others have taken it out of service"),
        ("DOWN", "fan 3 [ana@2026-11-29T01:00:00]", 77, "others have taken it out of service"),
        ("IDLE+DRAIN", OURS.format("drained for a reboot"), 77, "unstick:r1 drained"),
        ("IDLE+DRAIN", OURS.format("x").replace("r1", "r11"), 77, "others have taken it out of service"),
        ("IDLE", "fan 3 is loud [ana@2026-11-29T01:00:00]", 2, "a drain would overwrite it"),
        ("IDLE+REBOOT_REQUESTED", "", 2, "scontrol cancel_reboot gpu-01"),
        ("IDLE+POWERED_DOWN", "", 2, "in the hands of Slurm"),
        ("UNKNOWN", "", 2, "nobody knows this state"),
    ],
)
def test_only_a_node_that_nobody_else_has_is_drained(
    slurm: SlurmController, state: str, reason: str, code: int, told: str
) -> None:
    slurm.is_now(state, reason)

    check = slurm.play("drain", CHECK)

    assert (check.code, told in check.output, slurm.fake.calls("update")) == (code, True, [])


def test_a_drain_of_others_that_came_after_the_look_is_not_overwritten(slurm: SlurmController) -> None:
    drained = slurm.play("drain", RUN, ("node gpu-01 base UP",)).code
    slurm.is_now("IDLE+DRAIN", "fan 3 [ana@2026-11-29T01:00:00]")
    late = slurm.play("drain", RUN, ("node gpu-01 base UP",)).code

    update = "scontrol update NodeName=gpu-01 State=DRAIN Reason=unstick:r1 drained for a reboot"
    assert (drained, late, slurm.fake.calls("update")) == (0, 77, [update])


@pytest.mark.parametrize(
    ("jobs", "minutes", "code"),
    [
        ((), 1440, 0),
        ((JOB.format(7, "RUNNING"),), 1440, 77),
        ((JOB.format(7, "RUNNING"),), 0, 0),
        ((JOB.format(7, "COMPLETING"),), 1440, 0),
        ((JOB.format(7, "COMPLETING"), JOB.format(8, "SUSPENDED")), 1440, 77),
    ],
)
def test_jobs_are_waited_for_from_the_drain_on(
    slurm: SlurmController, jobs: tuple[str, ...], minutes: int, code: int
) -> None:
    # Ten minutes ago: jobs that are ending have had their five.
    slurm.fake.has("date", f'case "$*" in *-d*) /bin/date "$@" ;; *) echo {DRAINED_AT + 600} ;; esac')
    slurm.is_now("ALLOCATED+DRAIN", OURS.format("drained for a reboot"))
    slurm.jobs(*jobs)

    assert slurm.play("wait", VERIFY, wait=minutes).code == code


def test_a_squeue_that_cannot_look_is_not_an_empty_node(slurm: SlurmController) -> None:
    slurm.is_now("IDLE+DRAIN", OURS.format("drained for a reboot"))
    slurm.fake.has("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")

    assert [slurm.play(step, VERIFY).code for step in ("wait", "idle", "kill-jobs")] == [2, 2, 2]


def test_jobs_are_killed_only_when_each_was_approved_and_a_foreign_reason_stays(slurm: SlurmController) -> None:
    seven, eight = JOB.format(7, "RUNNING"), JOB.format(8, "RUNNING")
    slurm.is_now("ALLOCATED+DRAIN", OURS.format("drained for a reboot"))
    slurm.jobs(seven, eight)
    refused = slurm.play("kill-jobs", RUN, (seven,))
    before = slurm.fake.calls("update")
    killed = slurm.play("kill-jobs", RUN, (seven, eight))
    slurm.is_now("ALLOCATED+DRAIN", "fan 3 [ana@2026-11-29T01:00:00]")
    foreign = slurm.play("kill-jobs", RUN, (seven, eight))

    assert ((refused.code, killed.code, foreign.code), before) == ((77, 0, 0), [])
    assert "left alone, and all others with it, for these were not approved: job 8\n" in refused.output
    state = "scontrol update NodeName=gpu-01 State=DOWN Reason="
    assert slurm.fake.calls("update") == [
        f"{state}unstick:r1 jobs killed, not proven well (drained at {DRAINED_AT})",
        f"{state}fan 3",
    ]


@pytest.mark.parametrize(
    ("reason", "base", "code", "update"),
    [
        (OURS.format("drained for a reboot"), "UP", 0, ["State=RESUME"]),
        (OURS.format("drained for a reboot"), "DOWN", 0, ["State=UNDRAIN Reason=Not responding"]),
        (OURS.format("proven well (drained at 1)"), "DOWN", 0, ["State=RESUME"]),
        (OURS.format("jobs killed, not proven well (drained at 1)"), "UP", 77, []),
        (OURS.format("reboot ordered, not proven well (drained at 1)"), "UP", 77, []),
        (OURS.format("proven well").replace("r1", "r2"), "UP", 77, []),
        ("fan 3 [ana@2026-11-29T01:00:00]", "UP", 77, []),
    ],
)
def test_a_node_is_given_back_only_by_its_own_drain_and_while_nothing_is_unproven(
    slurm: SlurmController, reason: str, base: str, code: int, update: list[str]
) -> None:
    slurm.is_now("IDLE+DRAIN", reason)

    run = slurm.play("resume", RUN, (f"node gpu-01 base {base}",))

    assert run.code == code
    assert slurm.fake.calls("update") == [f"scontrol update NodeName=gpu-01 {one}" for one in update]


def test_the_mark_of_a_reboot_keeps_the_moment_of_the_drain(slurm: SlurmController) -> None:
    slurm.is_now("IDLE+DRAIN", OURS.format("drained for a reboot"))
    slurm.play("note-reboot", RUN)
    kept = f"unstick:r1 reboot ordered, not proven well (drained at {DRAINED_AT})"
    slurm.is_now("IDLE+DRAIN", f"{kept} [root@2026-11-29T02:00:00]")
    new = slurm.play("back-in-slurm", VERIFY)
    slurm.is_now("IDLE+DRAIN", f"unstick:r1 reboot ordered (drained at {DRAINED_AT + 60}) [root@2026-11-29T02:00:00]")
    old = slurm.play("back-in-slurm", VERIFY)

    assert slurm.fake.calls("update") == [f"scontrol update NodeName=gpu-01 Reason={kept}"]
    assert (new.code, old.code) == (0, 77)
    assert "is it the machine that was rebooted?" in old.output


@pytest.mark.parametrize("flag", ["NOT_RESPONDING", "INVALID_REG", "REBOOT_ISSUED"])
def test_a_node_that_slurm_does_not_take_is_not_back(slurm: SlurmController, flag: str) -> None:
    slurm.is_now(f"IDLE+DRAIN+{flag}", OURS.format("proven well"))

    assert slurm.play("back-in-slurm", VERIFY).code == 77


def test_a_job_s_name_does_not_hide_that_it_runs(slurm: SlurmController) -> None:
    slurm.is_now("ALLOCATED+DRAIN", OURS.format("drained for a reboot"))
    slurm.jobs("job 7 user eve state RUNNING nodes 1 since 2026-11-29T00:30:00 name x state COMPLETING x")

    idle, kill = slurm.play("idle", VERIFY), slurm.play("kill-jobs", CHECK)

    assert (idle.code, kill.code, len(kill.targets)) == (77, 0, 1)


@pytest.mark.parametrize("end", ["exit 0", "exit 77", "job 9 user eve state COMPLETING"])
def test_a_line_end_in_a_job_s_name_hides_no_other_job(slurm: SlurmController, end: str) -> None:
    slurm.is_now("ALLOCATED+DRAIN", OURS.format("drained for a reboot"))
    slurm.jobs(JOB.format(7, "COMPLETING"), end, JOB.format(8, "RUNNING"))

    idle, kill = slurm.play("idle", VERIFY), slurm.play("kill-jobs", CHECK)

    assert (idle.code, kill.targets) == (77, (JOB.format(8, "RUNNING"),))


def test_a_drain_of_which_nobody_tells_the_moment_has_not_lasted_long(slurm: SlurmController) -> None:
    slurm.is_now("ALLOCATED+DRAIN", "fan 3")
    slurm.jobs(JOB.format(7, "RUNNING"))

    waits, at_once = slurm.play("wait", VERIFY, wait=60), slurm.play("wait", VERIFY, wait=0)

    assert (waits.code, at_once.code) == (77, 0)
