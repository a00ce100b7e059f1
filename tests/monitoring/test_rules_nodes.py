"""The other rules for nodes, and those for the service: each fault fires, and what is normal does not."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.monitoring.promtool import Labels, Series, alert, fires, looked, never_fires, seen

NODE = {"node": "gpu-01", "instance": "gpu-01:9100"}
SERVICE = {"instance": "unstick:8000"}
Expected = tuple[str, Labels, Labels]


def at_service(name: str, values: str, **labels: str) -> Series:
    more = "".join(f",{label}='{value}'" for label, value in labels.items())
    return {f"unstick_{name}{{job='unstick',instance='unstick:8000'{more}}}": values}


def helpers(descriptors: str, connections: str) -> Series:
    return {
        **seen("gpu-01", "fuse_helper_descriptors", descriptors, helper="fusermount-serv"),
        **seen("gpu-01", "fuse_connections", connections),
    }


def ipc(owners: str, removes: str = "1+0x120") -> Series:
    return {
        **seen("gpu-01", "ipc_owners_without_linger", owners, logged_in="yes"),
        **seen("gpu-01", "ipc_owners_without_linger", "0+0x120", logged_in="no"),
        **seen("gpu-01", "remove_ipc", removes),
    }


def handlers(disk: str, files: str, running: str, *, handler: str = "nvidia") -> Series:
    of = {"disk": disk, "files": files, "running": running}
    rows = [seen("gpu-01", "runtime_handler", values, handler=handler, seen=where) for where, values in of.items()]
    return {name: values for row in rows for name, values in row.items()}


def handler_alert(told: str) -> Expected:
    summary = "containerd's files on gpu-01 and what it runs with disagree about the handler nvidia."
    return alert("RuntimeConfigNotLoaded", summary, description=told, handler="nvidia", **NODE)


def stuck_alert(wait: str) -> Expected:
    return alert("FuseRequestsStuck", f"For {wait} nobody has answered a FUSE request on gpu-01.", **NODE)


def still(values: str, connection: str = "57") -> Series:
    return seen("gpu-01", "fuse_still_seconds", values, connection=connection, fstype="fuse.rclone")


NOT_TOLD = alert(
    "UnstickPeopleNotTold",
    "The receiver oncall does not take what people should be told; a gate may expire unseen.",
    description="`unstick notices --failed` says why, and `unstick notices test oncall` tries it.",
    receiver="oncall",
    **SERVICE,
)

FAULTS: Mapping[str, tuple[Series, Expected]] = {
    "requests that nobody answers, beside a busy mount": (
        {**still("0+60x120"), **still("0+0x120", connection="58")},
        stuck_alert("50m 0s"),
    ),
    "a helper that keeps what it handed on": (
        helpers("0+2x120", "12+0x120"),
        alert(
            "MountHelperDescriptorsPileUp",
            "fusermount-serv on gpu-01 holds 100 descriptors of /dev/fuse, more than there are mounts.",
            description="A mount whose server dies now will not be aborted by the kernel. "
            "Restart the helper while the node is quiet.",
            helper="fusermount-serv",
            **NODE,
        ),
    ),
    "a thread in state D": (
        seen("gpu-01", "tasks_uninterruptible_oldest_seconds", "0+60x120", wchan="request_wait_answer"),
        alert(
            "TasksInStateD",
            "A thread on gpu-01 has been in state D in request_wait_answer for 50m 0s.",
            wchan="request_wait_answer",
            **NODE,
        ),
    ),
    "a user whose logout deletes semaphores": (
        ipc("2+0x120"),
        alert("RemoveIpcWithoutLinger", "A logout on gpu-01 would delete the semaphores of 2 users.", **NODE),
    ),
    "a drop-in that nothing imports": (
        handlers("1+0x120", "0+0x120", "0+0x120"),
        handler_alert("disk: 1, files: 0, running: 0"),
    ),
    "files that containerd has not read yet": (
        handlers("1+0x120", "1+0x120", "0+0x120"),
        handler_alert("disk: 1, files: 1, running: 0"),
    ),
    "a handler that runs and is lost at the next boot": (
        handlers("0+0x120", "0+0x120", "1+0x120"),
        handler_alert("disk: 0, files: 0, running: 1"),
    ),
    "a node run that a person must resolve": (
        at_service("node_runs_stuck", "1+0x120"),
        alert(
            "UnstickRunStuck",
            "1 nodes wait for a person: what a script did there is not known.",
            description="`unstick runs` names them, and `unstick show RUN` says what to type.",
            **SERVICE,
        ),
    ),
    "a gate that nobody answers": (
        at_service("gates_open", "2+0x120"),
        alert(
            "UnstickGateWaiting",
            "For half an hour at least one gate has been open, 2 now.",
            description="`unstick runs` names them; an approval expires.",
            **SERVICE,
        ),
    ),
    "a gate that was overridden": (
        at_service("gates_overridden", "1+0x120"),
        alert(
            "UnstickGateOverridden",
            "In the last day 1 gates were overridden: a step acted without its approval.",
            description="`unstick audit list --action gate.overridden` says who has done it, and why.",
            **SERVICE,
        ),
    ),
    "a breaker that has latched": (
        at_service("breaker_latched", "1+0x120", breaker="blast-radius"),
        alert(
            "UnstickBreakerLatched",
            "The breaker blast-radius is latched: alerts start nothing until an admin has looked.",
            description="`unstick breaker show` says why, "
            "and `unstick breaker reset blast-radius --reason ...` closes it.",
            breaker="blast-radius",
            **SERVICE,
        ),
    ),
    "a receiver that takes no notice": (
        at_service("notices_oldest_seconds", "0+60x120", receiver="oncall"),
        NOT_TOLD,
    ),
    "notices that were given up": (
        at_service("notices_given_up", "2+0x120", receiver="oncall"),
        NOT_TOLD,
    ),
    "a source of nodes that does not answer": (
        at_service("node_source_stale", "1+0x120", source="fleet"),
        alert(
            "UnstickNodeSourceStale",
            "The source fleet has not said lately which nodes there are; "
            "nothing is planned on those that it alone knows.",
            description="`unstick doctor` asks it once more and says why.",
            source="fleet",
            **SERVICE,
        ),
    ),
}


@pytest.mark.parametrize(("series", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_one_alert(tmp_path: Path, series: Series, expected: Expected) -> None:
    fires(tmp_path, expected, at=50, series={**looked("gpu-01"), **series})


DOWN = (
    "unstick does not answer, or cannot read its record.",
    "Nothing is cured and no gate can be answered. `unstick doctor` on its machine says what is missing.",
)


@pytest.mark.parametrize(
    ("up", "labels"),
    [("0+0x120", SERVICE), ("1+0x2 stale", {})],
    ids=["it does not answer", "nobody scrapes it"],
)
def test_a_service_that_is_down_is_told(tmp_path: Path, up: str, labels: Labels) -> None:
    expected = alert("UnstickDown", DOWN[0], description=DOWN[1], job="unstick", **labels)

    fires(tmp_path, expected, at=20, series={"up{job='unstick',instance='unstick:8000'}": up})


def test_a_pause_that_was_forgotten_is_told_after_eight_hours(tmp_path: Path) -> None:
    expected = alert(
        "UnstickAlertsPaused",
        "Alerts have been paused for eight hours, and start nothing.",
        description="`unstick resume --reason ...` ends the pause; what still fires is judged then.",
        **SERVICE,
    )

    up = {"up{job='unstick',instance='unstick:8000'}": "1+0x600"}

    fires(tmp_path, expected, at=500, series={**up, **at_service("alerts_paused", "1+0x600")})


NORMAL: Mapping[str, Series] = {
    "a busy mount, where requests always wait": {
        **seen("gpu-01", "fuse_waiting", "16+0x120", connection="58", fstype="fuse.rclone"),
        **still("0+0x120"),
    },
    "a store that answers after nine minutes": still("0+60x9 0+60x9 0+60x9 0+60x9 0+60x9 0+60x9"),
    "a helper that keeps one descriptor for each live mount": helpers("40+0x120", "40+0x120"),
    "forty mounts at once": helpers("0+0x20 40+0x10 0+0x90", "3+0x120"),
    "a disk under load, where threads come and go in state D": seen(
        "gpu-01",
        "tasks_uninterruptible_oldest_seconds",
        "120 0 60 180 0 0" + " 240 0" * 50,
        wchan="folio_wait_bit_common",
    ),
    "a container that is frozen": seen(
        "gpu-01", "tasks_uninterruptible_oldest_seconds", "0+60x120", wchan="__refrigerator"
    ),
    "logind that removes nothing": ipc("2+0x120", removes="0+0x120"),
    "a user who looks in for twenty minutes": ipc("0+0x10 1+0x20 0+0x90"),
    "nobody who owns anything": ipc("0+0x120"),
    "a runtime that is set up and restarted": handlers("0+0x10 1+0x110", "0+0x11 1+0x109", "0+0x15 1+0x105"),
    "a node whose containerd has no nvidia": handlers("0+0x120", "0+0x120", "0+0x120"),
    "another handler, of somebody else": handlers("1+0x120", "0+0x120", "0+0x120", handler="kata"),
    "a service that restarts": {"up{job='unstick',instance='unstick:8000'}": "1+0x20 0+0x3 1+0x100"},
    "a pause over an afternoon": at_service("alerts_paused", "0+0x10 1+0x110"),
    "a receiver that is away for some minutes": at_service(
        "notices_oldest_seconds", "0+0x10 0+60x10 0+0x100", receiver="oncall"
    ),
    "a gate that is answered within the half hour": at_service("gates_open", "0+0x10 1+0x25 0+0x90"),
    "a node run that is resolved at once": at_service("node_runs_stuck", "0+0x10 1+0x3 0+0x110"),
    "a source that is late once": at_service("node_source_stale", "0+0x10 1+0x3 0+0x110", source="fleet"),
}


@pytest.mark.parametrize("series", NORMAL.values(), ids=NORMAL.keys())
def test_what_is_normal_is_no_alert(tmp_path: Path, series: Series) -> None:
    never_fires(tmp_path, {**looked("gpu-01"), **series})


def test_what_an_old_file_says_is_no_fault(tmp_path: Path) -> None:
    sick = [series for series, expected in FAULTS.values() if expected[1]["unstick"] == "node"]
    series = {name: values for one in sick for name, values in one.items()}

    never_fires(tmp_path, {**looked("gpu-01", until=1), **series}, but=("UnstickNodeCollectorBlind",))
