"""The rules for GPUs: each fault fires, and no normal workload that was ever mistaken for one does."""

from pathlib import Path

import pytest

from tests.monitoring.promtool import Labels, Series, alert, fires, gpu, looked, never_fires

SUMMARY = "GPU {gpu} of {node} says 100 % busy, with no memory in use and no process."
GONE = "The scheduler does not see it."
#: Four nodes of eight GPUs, and on which of them each table showed 100 %, 0 MiB, P0.
PHANTOMS = {"gpu-node-1": (1, 3, 4, 5, 7), "gpu-node-2": (5, 6), "gpu-node-3": (3, 5, 6, 7), "gpu-node-4": (1, 2, 4)}
ON, OFF = "1+0x120", "0+0x120"


def phantom(node: str = "gpu-01", number: int = 0, /, **more: str) -> Series:
    fields = {"DEV_GPU_UTIL": "100+0x120", "DEV_FB_USED": "0+0x120", "DEV_PSTATE": "0+0x120"}
    return gpu(node, number, **{**fields, **more})


def phantom_alert(node: str = "gpu-01", number: int = 0, active: str = "not collected") -> tuple[str, Labels, Labels]:
    return alert(
        "GpuPhantomUtilisation",
        SUMMARY.format(node=node, gpu=number),
        description=f"SM active: {active}. {GONE}",
        node=node,
        instance=f"{node}:9400",
        gpu=str(number),
        device=f"nvidia{number}",
        UUID=f"GPU-{node}-{number}",
    )


def test_of_thirty_two_gpus_exactly_the_fourteen_phantoms_are_named(tmp_path: Path) -> None:
    series: dict[str, str] = {}
    for node, sick in PHANTOMS.items():
        series |= looked(node)
        for number in range(8):
            state = {} if number in sick else {"DEV_GPU_UTIL": "0+0x120", "DEV_PSTATE": "8+0x120"}
            series |= phantom(node, number, **state)

    expected = [phantom_alert(node, number) for node, sick in PHANTOMS.items() for number in sick]

    assert len(expected) == 14
    fires(tmp_path, *expected, at=40, series=series)
    fires(tmp_path, at=10, series=series)


@pytest.mark.parametrize(
    ("more", "active"),
    [
        ({"PROF_SM_ACTIVE": ON, "PROF_GR_ENGINE_ACTIVE": ON, "PROF_DRAM_ACTIVE": OFF}, "1"),
        ({"PROF_SM_ACTIVE": OFF, "PROF_GR_ENGINE_ACTIVE": OFF, "PROF_DRAM_ACTIVE": OFF}, "0"),
        ({"DEV_XID_ERRORS": "43+0x120"}, "not collected"),
        ({"DEV_FB_USED": "32+0x120", "DEV_PERSISTENCE_MODE": ON}, "not collected"),
    ],
    ids=["engines read as busy", "engines read as idle", "Xid 43 before it", "the memory that an idle driver keeps"],
)
def test_a_phantom_is_one_whatever_its_engines_say(tmp_path: Path, more: dict[str, str], active: str) -> None:
    series = {**looked("gpu-01"), **phantom(**more)}

    fires(tmp_path, phantom_alert(active=active), at=40, series=series)


#: What runs normally and was or would be mistaken for a phantom. A workload holds its GPU open: `live`.
NORMAL_LOADS = {
    "a compute-bound kernel with little memory, a small batch or model": {"live": ON, "DEV_FB_USED": "80+0x120"},
    "a microbenchmark of kernels alone": {"live": ON, "PROF_SM_ACTIVE": ON, "PROF_DRAM_ACTIVE": OFF},
    "inference of a small CNN": {"live": ON, "DEV_GPU_UTIL": "97+0x120", "DEV_FB_USED": "60+0x120"},
    "a quantized or sparse model with a small working set": {"live": ON, "PROF_DRAM_ACTIVE": "0.01+0x120"},
    "one kernel on one SM, which counts as 100 %": {"live": ON, "PROF_SM_ACTIVE": "0.007+0x120"},
    "warps that wait for memory and count as active": {"live": ON, "PROF_SM_ACTIVE": ON},
    "a spike of ten minutes": {"DEV_GPU_UTIL": "0+0x20 100+0x10 0+0x90"},
    "a profiler, under which the PROF fields are absent": {"live": ON, "PROF_SM_ACTIVE": "1+0x20 stale _x20 1+0x60"},
    "a collective of half an hour, which spins at 100 %": {"live": ON, "DEV_FB_USED": "70000+0x120"},
    "validation and the upload of a checkpoint, half an hour idle": {
        "live": ON,
        "DEV_GPU_UTIL": "100+0x20 0+0x30 100+0x70",
        "DEV_FB_USED": "70000+0x120",
    },
    "a workload whose pod label is missing": {"live": ON, "more": ",pod='',namespace='',container=''"},
    "another GPU of the same node is used, so that its ranks hold this one open": {"live": "8+0x120"},
    "pods of one minute, one after the other": {"live": " ".join("0 1" for _ in range(60))},
    "an exporter that restarts while a small workload runs": {
        "live": ON,
        "DEV_GPU_UTIL": "100+0x20 stale _x3 100+0x97",
        "DEV_FB_USED": "80+0x20 stale _x3 0+0x97",
    },
    "an exporter that restarts on an idle GPU and reads 100 % once": {
        "DEV_GPU_UTIL": "0+0x20 stale _x3 100 0+0x90",
    },
    "a GPU in MIG, of which the utilisation is not supported": {"more": ",GPU_I_ID='7',GPU_I_PROFILE='1g.10gb'"},
    "a GPU in MIG that says no utilisation at all": {"DEV_GPU_UTIL": "0+0x120", "live": ON},
    "persistence off, where each query starts the driver": {"DEV_PERSISTENCE_MODE": OFF},
    "memory that moves": {"PROF_DRAM_ACTIVE": "0.3+0x120"},
    "clocks that are not at their highest": {"DEV_PSTATE": "2+0x120"},
    "a process that was killed and still ends": {"dying": ON},
    "memory in use by more than an idle driver on this cluster": {"DEV_FB_USED": "300+0x120"},
}


@pytest.mark.parametrize("more", NORMAL_LOADS.values(), ids=NORMAL_LOADS.keys())
def test_a_normal_load_is_no_phantom(tmp_path: Path, more: dict[str, str]) -> None:
    never_fires(tmp_path, {**looked("gpu-01"), **phantom(**more)})


def test_a_phantom_that_a_new_workload_has_cured_is_resolved(tmp_path: Path) -> None:
    series = {**looked("gpu-01"), **phantom(live="0+0x50 1+0x70", DEV_FB_USED="0+0x50 20000+0x70")}

    fires(tmp_path, phantom_alert(), at=45, series=series)
    fires(tmp_path, at=60, series=series)


def ghost(live: str = OFF, dying: str = ON, **fields: str) -> Series:
    """Return the eight GPUs of a node: 80 GiB on the first, hundreds of MiB to a GiB on the others."""
    series: dict[str, str] = {}
    for number in range(8):
        used = "81920+0x120" if number == 0 else f"{300 + 100 * number}+0x120"
        given = {"DEV_FB_USED": used, "DEV_GPU_UTIL": "0+0x120", **(fields if number == 0 else {})}
        series |= gpu("gpu-01", number, live=live, dying=dying, **given)
    return {**looked("gpu-01"), **series}


def ghost_alert(mebibytes: int) -> tuple[str, Labels, Labels]:
    summary = f"{mebibytes} MiB of a GPU of gpu-01 are in use, and no living process holds it."
    return alert("GpuGhostVram", summary, node="gpu-01", instance="gpu-01:9400")


@pytest.mark.parametrize("dying", [ON, OFF], ids=["killed processes that cannot end", "nobody at all"])
def test_memory_that_no_living_process_holds_is_one_alert_of_its_node(tmp_path: Path, dying: str) -> None:
    fires(tmp_path, ghost_alert(81920), at=30, series=ghost(dying=dying))


NORMAL_MEMORY = {
    "a rank that waits half an hour in a collective": {"live": ON},
    "a model that is loaded and asked nothing": {"live": ON, "DEV_FB_USED": "70000+0x120"},
    "the upload of a checkpoint": {"live": ON, "DEV_GPU_UTIL": "100+0x10 0+0x40 100+0x70"},
    "a pod that takes its grace of 30 s and a second more to end": {
        "live": "1+0x30 0+0x90",
        "DEV_FB_USED": "81920+0x31 5+0x89",
    },
    "what an idle driver keeps": {"DEV_FB_USED": "600+0x120", "dying": OFF},
    "a number that means no value": {"DEV_FB_USED": "9223372036854775794+0x120"},
    "pods that follow each other within the minute": {"live": " ".join("0 1" for _ in range(60))},
    "an exporter that restarts": {"live": ON, "DEV_FB_USED": "81920+0x20 stale _x3 81920+0x97"},
}


@pytest.mark.parametrize("more", NORMAL_MEMORY.values(), ids=NORMAL_MEMORY.keys())
def test_memory_in_normal_use_is_no_ghost(tmp_path: Path, more: dict[str, str]) -> None:
    never_fires(tmp_path, ghost(**more))


def test_memory_of_an_instance_in_mig_is_a_ghost_only_when_nobody_holds_its_gpu(tmp_path: Path) -> None:
    instance = {"more": ",GPU_I_ID='7',GPU_I_PROFILE='1g.10gb'", "DEV_FB_USED": "9000+0x120"}

    never_fires(tmp_path, {**looked("gpu-01"), **gpu("gpu-01", 0, live=ON, **instance)})
    fires(tmp_path, ghost_alert(9000), at=30, series={**looked("gpu-01"), **gpu("gpu-01", 0, **instance)})


BLIND = "The collector on gpu-01 could not look{}: faults there are not seen."
WHY = "journalctl -u unstick-node-metrics says why."


@pytest.mark.parametrize(
    ("collector", "labels", "what"),
    [
        ({}, {"instance": "gpu-01:9400"}, ""),
        (looked("gpu-01", until=10), {"instance": "gpu-01:9100"}, ""),
        (
            {**looked("gpu-01"), "unstick_node_look_success{node='gpu-01',instance='gpu-01:9100',look='gpu'}": OFF},
            {"instance": "gpu-01:9100", "look": "gpu"},
            " at gpu",
        ),
    ],
    ids=["there is none", "its file is old", "it could not look at GPUs"],
)
def test_where_the_collector_is_blind_no_fault_is_made_of_it_and_that_is_said(
    tmp_path: Path, collector: Series, labels: Labels, what: str
) -> None:
    sick = {**phantom(), **phantom("gpu-01", 1, DEV_GPU_UTIL=OFF, DEV_FB_USED="81920+0x120")}
    series = {**sick, **collector}
    blind = alert("UnstickNodeCollectorBlind", BLIND.format(what), description=WHY, node="gpu-01", **labels)

    fires(tmp_path, blind, at=40, series=series)


def test_a_scrape_without_the_name_of_its_node_is_told(tmp_path: Path) -> None:
    series = {"DCGM_FI_DEV_FB_USED{instance='192.0.2.7:9400',job='dcgm',gpu='0',device='nvidia0'}": "81920+0x120"}
    summary = 'What 192.0.2.7:9400 says has no label "node": no fault of it is seen.'

    fires(
        tmp_path, alert("UnstickNodeLabelMissing", summary, job="dcgm", instance="192.0.2.7:9400"), at=30, series=series
    )
