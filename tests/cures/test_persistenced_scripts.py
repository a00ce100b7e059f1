"""Each script of restart-nvidia-persistenced on a node of files: two GPUs, one unit, and what goes wrong with them."""

from pathlib import Path

import pytest

from service.domain.script import ScriptKind
from tests.support.fake_gpu import FakeGpus
from tests.support.fake_node import FakeNode, Said

CHECK, RUN, VERIFY = ScriptKind.CHECK, ScriptKind.RUN, ScriptKind.VERIFY
A, B = "GPU-aaaa", "GPU-bbbb"
#: How the settings of a GPU stand in a target.
AS_SET = "persistence Enabled mig Disabled power 400.00 graphics 1980 memory 2619 compute Exclusive_Process"
UNIT = "unit nvidia-persistenced.service boot b1 invocation old pid 50 start 1000 state active"
QUICK = {"hold_seconds": 2, "settle_seconds": 3}
RUNNING = """LoadState=loaded
ActiveState={state}
UnitFileState=enabled
MainPID={pid}
InvocationID={invocation}
NRestarts=0
Result=success
"""


class GpuNode:
    """The node. Process 50 is the old daemon, 60 the new one, which is ten seconds old."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "proc/sys/kernel/random").mkdir(parents=True)
        (folder / "proc/sys/kernel/random/boot_id").write_text("b1\n")
        (folder / "proc/uptime").write_text("1010.00 900.00\n")
        (folder / "lock").mkdir()
        for pid, start in ((50, 1000), (60, 100_000)):
            self.process(pid, comm="nvidia-persiste", start=start)
        places = {
            "driver=/run/nvidia/driver ": f"driver={folder}/driver ",
            "kernel=/proc/driver/nvidia": f"kernel={folder}/kernel",
            "processes=/proc\n": f"processes={folder}/proc\n",
            "lock=/run\n": f"lock={folder}/lock\n",
            "flock --wait 45": "flock --wait 1",
        }
        self.fake = FakeNode(folder, "restart-nvidia-persistenced", places=places)
        self.gpus = FakeGpus(folder / "state", folder / "bin/nvidia-smi")
        self.fake.has("getconf", "echo 100")
        self.fake.has("sleep", "")
        self.fake.has("journalctl", "echo last words")
        self.fake.has(
            "systemctl",
            f'case $1 in show) cat "{folder}/unit" ;; restart) [ ! -e "{folder}/fails" ] || exit 1;'
            f' cp "{folder}/after" "{folder}/unit"; cp "{folder}/state/closed/"* "{folder}/state/gpus/{A}/" ;; esac',
        )
        self.unit()
        self.restarts_to()

    def unit(self, *, state: str = "active", pid: int = 50, invocation: str = "old") -> None:
        (self.folder / "unit").write_text(RUNNING.format(state=state, pid=pid, invocation=invocation))

    def restarts_to(self, *, state: str = "active", pid: int = 60, invocation: str = "new") -> None:
        (self.folder / "after").write_text(RUNNING.format(state=state, pid=pid, invocation=invocation))

    def without_unit(self) -> None:
        (self.folder / "unit").write_text("LoadState=not-found\nActiveState=inactive\nMainPID=0\n")

    def in_driver_container(self) -> None:
        """Let GPU Operator's driver container have nvidia-smi, and the host not."""
        inside = self.folder / "driver/usr/bin"
        inside.mkdir(parents=True)
        (self.folder / "bin/nvidia-smi").rename(inside / "nvidia-smi")
        self.fake.has("chroot", 'exec "$1/usr/bin/$2" "${@:3}"')

    def process(self, pid: int, *, comm: str, start: int = 1, state: str = "S", opened: str = "") -> None:
        folder = self.folder / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text(f"{comm}\n")
        (folder / "status").write_text(f"Name:\t{comm}\nUmask:\t0022\nState:\t{state} (x)\n")
        (folder / "stat").write_text(f"{pid} ({comm}) {state} " + "0 " * 18 + f"{start} 0\n")
        if opened:
            (folder / "fd/3").symlink_to(opened)

    def known_to_the_driver(self, *uuids: str) -> None:
        for minor, uuid in enumerate(uuids):
            folder = self.folder / "kernel/gpus" / f"0000:{minor:02}:00.0"
            folder.mkdir(parents=True)
            (folder / "information").write_text(f"Model: \t X\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n")

    def check(self, **params: object) -> Said:
        return self.fake.play("restart", CHECK, (), **{**QUICK, **params})

    def run(self, targets: tuple[str, ...], **params: object) -> Said:
        return self.fake.play("restart", RUN, targets, **{**QUICK, **params})

    def verify(self, targets: tuple[str, ...] = (), *, step: str = "restart", **params: object) -> Said:
        return self.fake.play(step, VERIFY, targets, **{**QUICK, **params})


@pytest.fixture
def node(tmp_path: Path) -> GpuNode:
    return GpuNode(tmp_path)


def gpu(uuid: str, *, phantom: bool = True, settings: str = AS_SET) -> str:
    return f"gpu {uuid} phantom {'yes' if phantom else 'no'} {settings}"


#: The targets of the unit when GPU A looks used by nobody.
WHOLE = (UNIT, gpu(A), gpu(B, phantom=False))


def test_where_nothing_is_wrong_nothing_is_done_and_all_is_well(node: GpuNode) -> None:
    check, verify, well = node.check(), node.verify(), node.verify(step="well")

    told = f"idle {A} utilisation 0, memory 4\nidle {B} utilisation 0, memory 4\n"
    assert (check.code, check.targets) == (77, ())
    assert check.output == f"{told}the daemon is as it should be, and no GPU looks used by nobody\n"
    assert (verify.code, well.code, well.output) == (0, 0, told)
    assert node.gpus.changes() == []


def test_a_gpu_that_looks_used_by_nobody_gives_the_unit_and_all_settings_as_targets(node: GpuNode) -> None:
    node.gpus.latch(B)

    check = node.check()

    assert (check.code, check.targets) == (0, (UNIT, gpu(A, phantom=False), gpu(B)))
    assert f"phantom {B} utilisation 100, memory 4\n" in check.output


def test_memory_without_a_process_counts_too_and_a_process_ends_the_suspicion(node: GpuNode) -> None:
    node.gpus.set(A, **{"memory.used": "40000"})
    alone = node.check()
    node.gpus.apps(A)

    used = node.check()

    assert [target.split()[:4] for target in alone.targets[1:]] == [
        ["gpu", A, "phantom", "yes"],
        ["gpu", B, "phantom", "no"],
    ]
    assert (used.code, used.targets) == (77, ())
    assert f"used {A} utilisation 0, memory 40000\n" in used.output


@pytest.mark.parametrize(("comm", "state"), [("python", "held"), ("nv-hostengine", "phantom")])
def test_who_has_a_gpu_open_is_seen_and_what_only_watches_does_not_count(node: GpuNode, comm: str, state: str) -> None:
    node.known_to_the_driver(A, B)
    node.process(71, comm=comm, opened="/dev/nvidia1")
    node.gpus.latch(B)

    check = node.check()

    assert f"{state} {B} utilisation 100, memory 4\n" in check.output
    assert check.code == (0 if state == "phantom" else 77)


def test_one_look_is_not_enough(node: GpuNode) -> None:
    node.gpus.latch(B)

    said = node.fake.shell(
        f"sleep() {{ echo 0 >'{node.folder}/state/gpus/{B}/utilization.gpu'; }}\nsteady 40 phantoms 90 600"
    )

    assert (said.code, said.output) == (0, "")


def test_a_word_that_nobody_knows_is_unknown_and_triggers_nothing(node: GpuNode) -> None:
    node.gpus.set(A, **{"memory.used": "[Unknown Error]"})
    node.gpus.set(B, **{"utilization.gpu": "[N/A]", "memory.used": "[Not Supported]"})

    check, well = node.check(), node.verify(step="well")

    told = f"unknown {A} utilisation 0, memory [Unknown Error]\nuntold {B} utilisation [N/A], memory [Not Supported]\n"
    assert (check.code, check.targets, check.output.startswith(told)) == (77, (), True)
    assert (well.code, well.output.startswith(told)) == (2, True)


@pytest.mark.parametrize("words", ["[GPU requires reset]", "ERR!", "", "[Insufficient Permissions]"])
def test_no_odd_word_is_ever_taken_for_a_number(node: GpuNode, words: str) -> None:
    node.gpus.set(A, **{"utilization.gpu": words})

    check, well = node.check(), node.verify(step="well")

    assert (check.code, check.targets, well.code) == (77, (), 2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", 0),
        ("Unable to determine the device handle for GPU0000:07:00.0: GPU is lost. Reboot the system", 0),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
        ("No devices were found", 6),
    ],
)
def test_a_sentence_instead_of_rows_is_could_not_look_whatever_the_exit_code(
    node: GpuNode, text: str, code: int
) -> None:
    node.gpus.say(text, code=code)

    looks = [node.check(), node.verify(step="well")]

    assert [(look.code, look.targets, text in look.output) for look in looks] == [(2, (), True)] * 2


def test_a_row_that_is_missing_is_could_not_look(node: GpuNode) -> None:
    node.known_to_the_driver(A, B)
    node.gpus.lose(B)

    check = node.check()

    assert (check.code, check.targets) == (2, ())
    assert "could not look: the driver has 2 GPUs, and 1 answered\n" in check.output


def test_while_one_nvidia_smi_hangs_no_second_one_is_started(node: GpuNode) -> None:
    left_behind = "bounded() { echo left behind; /bin/sleep 3 >/dev/null 2>&1 & return 124; }"

    said = node.fake.shell(f'{left_behind}\nfor _ in 1 2; do nvidia_smi -q || echo "exit $?"; done')

    assert (said.code, said.output) == (0, "left behind\nexit 124\nan earlier nvidia-smi has not ended\nexit 3\n")


def test_an_nvidia_smi_of_somebody_else_in_state_d_is_the_finding(node: GpuNode) -> None:
    node.process(80, comm="nvidia-smi", start=7, state="D")

    check = node.check()

    assert (check.code, check.targets) == (2, ())
    assert f"an nvidia-smi hangs in state D: {node.folder}/proc/80 7\n" in check.output
    assert node.gpus.calls() == []


def test_the_unit_is_restarted_and_settles(node: GpuNode) -> None:
    node.gpus.latch(A)
    targets = WHOLE

    before = node.verify(targets)
    run = node.run(targets)
    young, settled = node.verify(targets, settle_seconds=11), node.verify(targets)

    still = f"it was not restarted, and is active: {gpu(A)}\n"
    assert (before.code, before.output) == (77, still)
    assert (run.code, run.output) == (0, "systemd restarted nvidia-persistenced.service\n")
    assert (young.code, young.output.endswith("\nits process has lasted 10 s, and 11 s count as settled\n")) == (
        77,
        True,
    )
    assert (settled.code, node.verify(step="well").code) == (0, 0)


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({"state": "failed", "pid": 0}, "it was restarted and is not active: failed, success"),
        ({"state": "activating", "pid": 60}, "it was restarted and is not active: activating, success"),
        ({"pid": 50}, "its process is the old one"),
        ({"pid": 99}, "it was restarted and is not active: active, success"),
    ],
    ids=[
        "started and stopped at once",
        "starting again and again",
        "the old process",
        "no process",
    ],
)
def test_a_restart_that_only_looks_like_one_is_not_well(node: GpuNode, after: dict[str, object], told: str) -> None:
    node.gpus.latch(A)
    targets = WHOLE
    node.restarts_to(**after)  # type: ignore[arg-type]
    node.run(targets)

    verify = node.verify(targets)

    assert (verify.code, verify.output.splitlines()[-1]) == (77, told)


def test_a_restart_that_leaves_the_old_invocation_has_failed(node: GpuNode) -> None:
    node.gpus.latch(A)
    node.restarts_to(invocation="old")

    run, verify = node.run(WHOLE), node.verify(WHOLE, even_if_well=True)

    assert (run.code, run.output) == (2, "systemd says that it restarted, and the invocation is the old one\n")
    assert (verify.code, verify.output.splitlines()[-1]) == (77, "it was not restarted")


def test_a_unit_that_does_not_restart_gives_its_last_words(node: GpuNode) -> None:
    node.gpus.latch(A)
    targets = WHOLE
    (node.folder / "fails").touch()

    run = node.run(targets)

    assert (run.code, run.output) == (2, "systemctl: exit 1\nthe unit did not restart; its last words:\nlast words\n")


@pytest.mark.parametrize("state", ["failed", "inactive", "activating"])
def test_a_unit_that_should_run_and_does_not_is_restarted_also_without_a_phantom(node: GpuNode, state: str) -> None:
    node.unit(state=state, pid=0, invocation="")

    check = node.check()
    run, verify = node.run(check.targets), node.verify(check.targets)

    none = f"unit nvidia-persistenced.service boot b1 invocation none pid 0 start none state {state}"
    assert (check.code, check.targets) == (0, (none, gpu(A, phantom=False), gpu(B, phantom=False)))
    assert (run.code, verify.code) == (0, 0)
    assert node.fake.calls("systemctl re") == [
        "systemctl reset-failed nvidia-persistenced.service",
        "systemctl restart nvidia-persistenced.service",
    ]


def test_what_was_approved_and_is_no_longer_true_is_left_alone(node: GpuNode) -> None:
    node.gpus.latch(A)
    targets = WHOLE
    node.gpus.set(A, **{"utilization.gpu": "0"})
    node.gpus.latch(B)

    cleared, well = node.run(targets), node.verify(targets)
    node.gpus.latch(A)
    node.unit(invocation="another")
    restarted = node.run(targets)

    assert (cleared.code, restarted.code, well.code) == (77, 77, 0)
    assert well.output == "it was not restarted, and what was wrong is gone\n"
    assert cleared.output == (
        f"left alone, not approved: {B}\nthe daemon runs, and no approved GPU looks used by nobody any more\n"
    )
    assert restarted.output == f"left alone, not approved: {B}\nsomebody restarted it since the look\n"
    assert node.fake.calls("restart") == []


def test_without_a_unit_the_mode_of_these_gpus_alone_is_switched_and_comes_back(node: GpuNode) -> None:
    node.without_unit()
    node.gpus.latch(A)
    before = node.gpus.settings()
    check = node.check()

    run, verify = node.run(check.targets), node.verify(check.targets)
    restore = node.fake.play("restore", RUN, check.targets)

    assert (check.code, check.targets) == (0, (gpu(A),))
    assert (run.code, verify.code, restore.code) == (0, 0, 0)
    assert node.gpus.changes() == [
        f"nvidia-smi -i {A} -pm 0",
        f"nvidia-smi -i {A} -pm 1",
        f"nvidia-smi -i {A} -pl 400.00",
        f"nvidia-smi -i {A} -ac 2619,1980",
    ]
    before[A]["utilization.gpu"] = "0"
    assert node.gpus.settings() == before
    assert node.verify(check.targets, step="restore").code == 0


def test_in_the_driver_pod_it_is_done_by_chroot_and_the_pod_is_not_touched(node: GpuNode) -> None:
    node.without_unit()
    node.in_driver_container()
    node.gpus.latch(B)
    check = node.check()

    run, verify = node.run(check.targets), node.verify(check.targets)

    assert (check.code, check.targets, run.code, verify.code) == (0, (gpu(B),), 0, 0)
    assert "way: operator;" in check.output
    assert node.fake.calls("-pm") == [
        f"chroot {node.folder}/driver nvidia-smi -i {B} -pm 0",
        f"chroot {node.folder}/driver nvidia-smi -i {B} -pm 1",
    ]
    assert node.fake.calls("systemctl re") == []


def test_a_unit_that_is_off_on_purpose_is_not_started(node: GpuNode) -> None:
    (node.folder / "unit").write_text("LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\nMainPID=0\n")
    node.gpus.latch(A)

    check = node.check()

    assert (check.targets, "way: legacy;" in check.output) == ((gpu(A),), True)


def test_a_mode_that_is_not_told_is_never_switched(node: GpuNode) -> None:
    node.without_unit()
    node.gpus.latch(A)
    node.gpus.set(A, persistence_mode="[Unknown Error]")

    check = node.check()

    assert (check.code, check.targets) == (77, ())
    assert f"left alone, its persistence mode is not told: {A}\n" in check.output


def test_a_mode_that_does_not_come_back_is_tried_once_more_and_is_a_fault_of_its_own(node: GpuNode) -> None:
    node.without_unit()
    node.gpus.latch(A)
    targets = (gpu(A),)
    node.gpus.refuse("-pm 1")

    run, verify = node.run(targets), node.verify(targets)
    restore, left = node.fake.play("restore", RUN, targets), node.verify(targets, step="restore")

    assert (run.code, verify.code, restore.code, left.code) == (2, 77, 2, 77)
    assert "Unable to set it for GPU GPU-aaaa: Unknown Error\n" in restore.output
    assert left.output == f"not as recorded (GPU, setting, was, is):\n{A} persistence Enabled Disabled\n"
    # What could be set back was, all the same.
    assert node.gpus.settings()[A]["power.limit"] == "400.00"


def test_a_gpu_that_fell_off_the_bus_does_not_keep_the_others_from_being_restored(node: GpuNode) -> None:
    node.gpus.latch(A)
    targets = WHOLE
    node.run(targets)
    node.gpus.lose(B)

    restore, left = node.fake.play("restore", RUN, targets), node.verify(targets, step="restore")

    assert (restore.code, left.code) == (2, 2)
    assert node.gpus.settings()[A]["power.limit"] == "400.00"
    assert f"{B} persistence Enabled unknown\n" in left.output


def test_every_setting_that_differs_is_set_back_and_what_was_not_told_is_not(node: GpuNode) -> None:
    node.gpus.set(B, **{"power.limit": "[N/A]"})
    targets = (UNIT, gpu(A), gpu(B, settings=AS_SET.replace("400.00", "unknown")))
    found = node.gpus.settings()
    changed = {
        "persistence_mode": "Disabled",
        "mig.mode.current": "Enabled",
        "power.limit": "700.00",
        "clocks.applications.graphics": "1755",
        "clocks.applications.memory": "1593",
        "compute_mode": "Default",
    }
    for uuid in (A, B):
        node.gpus.set(uuid, **changed)

    restore, left = node.fake.play("restore", RUN, targets), node.verify(targets, step="restore")

    found[B]["power.limit"] = "700.00"
    assert (restore.code, left.code, node.gpus.settings()) == (0, 0, found)
    again = node.fake.play("restore", RUN, targets)
    assert (again.code, again.output) == (77, "all settings are as recorded\n")


def test_where_mig_is_on_nothing_is_done_unless_somebody_says_so(node: GpuNode) -> None:
    node.gpus.latch(A)
    node.gpus.set(B, **{"mig.mode.current": "Enabled", "utilization.gpu": "[N/A]"})

    unasked, asked = node.check(), node.check(mig=True)

    assert (unasked.code, unasked.targets) == (2, ())
    assert unasked.output.endswith("nothing is done: MIG instances could be lost; say so with the parameter mig\n")
    assert (asked.code, len(asked.targets)) == (0, 3)


def test_even_if_well_restarts_a_daemon_that_runs(node: GpuNode) -> None:
    check = node.check(even_if_well=True)
    run = node.run(check.targets, even_if_well=True)

    assert (check.code, check.targets, run.code) == (0, (UNIT, gpu(A), gpu(B)), 0)


def test_the_evidence_is_taken_also_where_nothing_answers(node: GpuNode) -> None:
    node.gpus.say("Failed to initialize NVML: Unknown Error", code=255)
    node.fake.has("systemctl", "echo 'Failed to connect to bus'; exit 1")

    said = node.fake.play("evidence", RUN)

    assert said.code == 0
    assert "Failed to connect to bus\n" in said.output
    assert "Failed to initialize NVML: Unknown Error\n" in said.output
