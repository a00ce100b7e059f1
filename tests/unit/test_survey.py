"""What scripts of a survey say is read strictly: nothing that a machine says forges a line, or is taken for nothing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.app.survey_frames import Said, read_parts, unquoted
from service.app.survey_kubernetes import read_kubernetes
from service.app.survey_machine import read_machine
from service.app.survey_slurm import read_slurm
from service.domain.survey import (
    MOST_NAMED,
    Kind,
    Occupant,
    OccupantLimits,
    Part,
    Sight,
    Survey,
    could_not_look,
    foreign_owner,
    judged,
    not_asked,
    seen,
    word,
)
from service.store.survey_column import Surveyed

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
CORDONED = Occupant("cordoned by others")
POD = 'pod "ml" "train-0" "u1" "Running" "StatefulSet" "train" "high" "no"'


def said(text: str, end: str = "0") -> Said:
    return Said(end, text)


def frame(*parts: tuple[str, str, str]) -> bytes:
    return "".join(f"{name}\0{end}\0{text}\0" for name, end, text in (*parts, ("end", "0", ""))).encode()


def kubernetes(**parts: str) -> dict[Kind, Part]:
    texts = {"cluster": "uid-1", "node": "cordoned no\nend", "locks": "0 daemonsets", "pods": "0 pods"} | parts
    read = read_kubernetes({name: said(text) for name, text in texts.items()}, "gpu-01", uid="uid-1", now=NOW)
    return dict(read)


def slurm(line: str, jobs: str = "") -> dict[Kind, Part]:
    return dict(read_slurm({"node": said(f"NodeName=gpu-01 {line}\n"), "jobs": said(jobs)}, "gpu-01"))


def lock(value: str) -> str:
    return f'lock "kube-system" "kured" "{value}"\n1 daemonsets'


def test_parts_are_taken_only_when_they_are_all_there() -> None:
    whole = frame(("users", "0", "a\nb"), ("gpus", "none", ""))

    assert read_parts(whole) == {"users": Said("0", "a\nb"), "gpus": Said("none", "")}
    assert [read_parts(whole[:cut]) for cut in range(len(whole))] == [None] * len(whole)
    assert read_parts(frame(("users", "0", ""), ("users", "0", ""))) is None
    assert read_parts(b"hello\0" + whole) is None


@given(st.binary(max_size=400))
def test_no_bytes_of_a_machine_are_an_error(data: bytes) -> None:
    parts = read_parts(data) or {"users": Said("0", data.decode("utf-8", "replace"))}

    for name in ("users", "sessions", "gpus", "node", "locks", "pods", "jobs"):
        told = {"cluster": Said("0", "uid-1"), **parts, name: Said("0", data.decode("utf-8", "replace"))}
        read_machine(told, "root")
        read_slurm(told, "gpu-01")
        read_kubernetes(told, "gpu-01", uid="uid-1", now=NOW)


@given(st.text(st.characters(codec="ascii", exclude_characters='"\\'), max_size=60))
def test_a_quoted_name_stays_one_word(name: str) -> None:
    quoted = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in name)

    assert unquoted(f'pod "{quoted}" "x"', "pod", count=2) == (name, "x")
    assert unquoted(f'pod "{quoted}"', "pod", count=2) is None


@given(st.text(max_size=300))
def test_a_word_is_one_line_that_moves_no_cursor(text: str) -> None:
    shown = word(text)

    assert len(shown) <= 200
    assert all(one.isprintable() for one in shown)


@pytest.mark.parametrize(
    ("node", "owners"),
    [
        ("cordoned no\nend", seen(())),
        ("cordoned yes\nend", seen([CORDONED])),
        ('cordoned yes\nours "run-1"\nend', seen([Occupant("cordoned by unstick", apart="unstick's own cordon")])),
        (
            'cordoned no\ntaint "karpenter.sh/disrupted"\ntaint "gpu"\nend',
            seen([Occupant("Karpenter is about to remove it", {"taint": "karpenter.sh/disrupted"})]),
        ),
        ('cordoned no\nours "x"\nours', could_not_look('kubectl says of the node: cordoned no\nours "x"\nours')),
        ("cordoned no", could_not_look("kubectl says of the node: cordoned no")),
    ],
)
def test_a_cordon_without_our_annotation_is_somebody_elses(node: str, owners: Part) -> None:
    assert kubernetes(node=node)[Kind.OWNERS] == owners


KURED = seen([Occupant("kured has the lock for it", {"DaemonSet": "kube-system/kured"})])


@pytest.mark.parametrize(
    ("value", "owners"),
    [
        ("", seen(())),
        (r"{\"nodeID\":\"gpu-01\",\"created\":\"2026-11-29T11:00:00.123456789Z\",\"TTL\":0}", KURED),
        (r"{\"nodeID\":\"gpu-02\",\"TTL\":0}", seen(())),
        (r"{\"nodeID\":\"gpu-01\",\"created\":\"2026-11-29T11:00:00.123456789Z\",\"TTL\":1800000000000}", seen(())),
        (r"{\"nodeID\":\"gpu-01\",\"created\":\"2026-11-29T11:45:00Z\",\"TTL\":1800000000000}", KURED),
        (r"{\"nodeID\":\"gpu-01\",\"created\":\"once\",\"TTL\":1}", KURED),
        (r"{\"maxOwners\":2,\"locks\":[{\"nodeID\":\"gpu-02\"},{\"nodeID\":\"gpu-01\"}]}", KURED),
    ],
)
def test_kured_has_the_node_while_its_lock_names_it(value: str, owners: Part) -> None:
    assert kubernetes(locks=lock(value))[Kind.OWNERS] == owners


@pytest.mark.parametrize("value", ["{", "[]", "7", r"{\"nodeID\":7}", r"{\"locks\":7}", r"{\"locks\":[7]}"])
def test_a_lock_that_cannot_be_read_is_no_free_node(value: str) -> None:
    assert kubernetes(locks=lock(value))[Kind.OWNERS].sight is Sight.COULD_NOT_LOOK


def test_pods_of_daemon_sets_static_and_ended_ones_do_not_count() -> None:
    others = (
        'pod "sys" "exporter" "u2" "Running" "DaemonSet" "exporter" "" "no"',
        'pod "sys" "proxy" "u3" "Running" "" "" "" "yes"',
        'pod "ml" "old" "u4" "Succeeded" "Job" "old" "" "no"',
    )

    found = kubernetes(pods="\n".join((*others, POD, "4 pods")))[Kind.PODS]

    facts = {"owner": "StatefulSet/train", "priority": "high", "phase": "Running", "uid": "u1"}
    assert (found.count, found.apart, found.found[0]) == (1, 3, Occupant("ml/train-0", facts))
    assert [one.apart for one in found.found[1:]] == ["DaemonSet", "static pod", "ended"]


@pytest.mark.parametrize("pods", ["", "1 pods", f"{POD}\n2 pods", f"{POD}", f"{POD}\n1 pods\n", f"{POD} x\n1 pods"])
def test_pods_that_are_not_all_there_could_not_be_seen(pods: str) -> None:
    assert kubernetes(pods=pods)[Kind.PODS].sight is Sight.COULD_NOT_LOOK


def test_another_cluster_or_a_silent_one_tells_nothing() -> None:
    other = kubernetes(cluster="uid-2")
    silent = read_kubernetes({"cluster": said("refused\x1b[2J", "1")}, "gpu-01", uid="", now=NOW)

    assert other[Kind.OWNERS] == other[Kind.PODS] == could_not_look("wrong cluster: its kube-system has the UID uid-2")
    assert silent[Kind.OWNERS] == silent[Kind.PODS] == could_not_look("refused\\x1b[2J")


@pytest.mark.parametrize(
    ("line", "owner"),
    [
        ("State=IDLE Partitions=a", ""),
        ("State=IDLE+DRAIN Reason=bad DIMM [root@2026-11-29T10:00:00]", "drained in Slurm by root: 'bad DIMM'"),
        ("State=IDLE+DRAIN", "drained in Slurm, without a reason"),
        ("State=DOWN* Reason=Not responding [slurm@2026-11-29T10:00:00]", ""),
        ("State=DOWN Reason=bad fan [ann@2026-11-29T10:00:00]", "taken down in Slurm by ann: 'bad fan'"),
        ("State=IDLE+DRAIN Reason=Kill task failed [root@2026-11-29T10:00:00]", ""),
        ("State=MIXED@ Partitions=a", "Slurm is about to reboot it"),
        ("State=IDLE+MAINTENANCE Partitions=a", "a reservation for maintenance has it"),
        ("OS=Linux State=IDLE+DRAIN RealMemory=1 State=IDLE", ""),
        (
            "State=IDLE+DRAIN Reason=x\nNodeName=gpu-01 State=IDLE [root@2026-11-29T10:00:00]",
            "drained in Slurm by root: 'x\\nNodeName=gpu-01 State=IDLE'",
        ),
    ],
)
def test_a_node_that_others_took_out_of_service_in_slurm_is_theirs(line: str, owner: str) -> None:
    owners = slurm(line)[Kind.OWNERS]

    assert (owners.sight, "; ".join(one.name for one in owners.found)) == (Sight.SEEN, owner)


def test_our_own_drain_is_told_and_does_not_count() -> None:
    owners = slurm("State=IDLE+DRAIN Reason=unstick:run-1 drained [root@2026-11-29T10:00:00]")[Kind.OWNERS]

    own = Occupant("drained in Slurm by unstick", {"reason": "unstick:run-1 drained"}, "unstick's own drain")
    assert owners == seen([own])
    assert foreign_owner(owners, "gpu-01") == ""


@pytest.mark.parametrize("line", ["", "State=", "Arch=x"])
def test_a_node_without_a_state_could_not_be_seen(line: str) -> None:
    assert slurm(line)[Kind.OWNERS].sight is Sight.COULD_NOT_LOOK


def test_jobs_are_read_whole_or_not_at_all() -> None:
    job = "42|ann|RUNNING|4|2026-11-29T03:00:00"

    assert slurm("State=IDLE", job)[Kind.JOBS] == seen(
        [Occupant("42", {"user": "ann", "state": "RUNNING", "nodes": "4", "since": "2026-11-29T03:00:00"})]
    )
    assert slurm("State=IDLE", f"{job}\nslurm_load_jobs error")[Kind.JOBS].sight is Sight.COULD_NOT_LOOK


def machine(**parts: Said) -> dict[Kind, Part]:
    return dict(read_machine({name.replace("_", "-"): one for name, one in parts.items()}, "ops"))


def test_users_with_a_session_count_and_system_users_and_our_login_do_not() -> None:
    users = said("   0 root\n1000 ann\n1001 ops  no  active\n1002 bob  yes lingering\n")
    sessions = said("  c1   0 root - \n   2 1000 ann seat0 tty1\n   3 1000 ann -\n   4 1001 ops -\n")

    found = machine(users=users, sessions=sessions, gpus=said("", "none"))

    assert found == {
        Kind.USERS: seen(
            [
                Occupant("root", {"uid": "0", "sessions": "1"}, "system user"),
                Occupant("ann", {"uid": "1000", "sessions": "2"}),
                Occupant("ops", {"uid": "1001", "sessions": "1"}, "the login of unstick"),
                Occupant("bob", {"uid": "1002", "sessions": "0"}, "no session"),
            ]
        ),
        Kind.GPU_PROCESSES: not_asked("there is no GPU driver"),
    }


def test_a_process_on_a_gpu_is_told_with_its_pod_job_and_user_and_forges_no_other() -> None:
    cgroup = "0::/kubepods-pod6c9f2d1e_1111_2222_3333_444455556666.slice/x\n1:name=x:/slurm/uid_1000/job_77/step_0\n"
    found = machine(
        users=said("1000 ann\n"),
        sessions=said(""),
        gpus=said("GPU-aaaa, 123, 4096\nGPU-aaaa, 124, [N/A]\n"),
        comm_123=said("py\n124, GPU-b\n"),
        cgroup_123=said(cgroup),
        status_123=said("Name:\tpy\nUid:\t1000\t1000\t1000\t1000\n"),
    )[Kind.GPU_PROCESSES]

    facts = {
        "command": "py\\n124, GPU-b",
        "gpu": "GPU-aaaa",
        "memory": "4096 MiB",
        "user": "ann",
        "pod": "6c9f2d1e-1111-2222-3333-444455556666",
        "job": "77",
    }
    assert found == seen([Occupant("123", facts), Occupant("124", {"gpu": "GPU-aaaa"})])


def test_an_nvidia_smi_that_hangs_is_no_idle_gpu() -> None:
    late = machine(users=said("", "none"), gpus=said("no answer, left behind", "124"))
    strange = machine(users=said("", "none"), gpus=said("Unable to determine the device handle"))

    assert late[Kind.GPU_PROCESSES] == could_not_look("no answer in time. no answer, left behind")
    assert strange[Kind.GPU_PROCESSES].sight is Sight.COULD_NOT_LOOK


def survey(**parts: Part) -> Survey:
    return Survey(NOW, {kind: parts.get(kind.value, seen(())) for kind in Kind})


def test_what_is_over_a_limit_or_could_not_be_seen_is_for_a_person() -> None:
    limits = OccupantLimits(pods=1, jobs=0, users=2, only_for=("h100",))
    full = survey(
        pods=seen([Occupant("a"), Occupant("b"), Occupant("c", apart="DaemonSet")]),
        jobs=not_asked("no slurm_name"),
        users=could_not_look("no answer"),
        gpu_processes=seen([Occupant("1")]),
    )

    assert judged(full, limits, pools=["h100"]).over == (
        "There are 2 pods, and 1 may be.",
        "How many users there are is not known (no answer), and 2 may be.",
    )
    assert judged(full, limits, pools=["a100"]) == full
    assert judged(full, OccupantLimits(), pools=["h100"]) == full


def test_a_survey_is_told_in_one_line_and_in_numbers() -> None:
    one = survey(
        pods=seen([Occupant("ml/a"), Occupant("sys/b", apart="DaemonSet")]),
        jobs=not_asked("the node has no slurm_name"),
        users=could_not_look("no answer"),
    )

    assert one.words == "0 foreign owners, 1 pod, 0 GPU processes; users: could not look: no answer"
    assert one.counts() == {
        "owners": 0,
        "pods": 1,
        "jobs": "not asked: the node has no slurm_name",
        "users": "could not look: no answer",
        "gpu_processes": 0,
    }


def test_more_than_can_be_named_are_counted() -> None:
    many = seen(Occupant(str(number)) for number in range(MOST_NAMED + 7))

    assert (len(many.found), many.count) == (MOST_NAMED, MOST_NAMED + 7)


def test_a_survey_is_read_from_its_column_as_it_was_written() -> None:
    written = replace(survey(pods=seen([Occupant("ml/\ud800", {"a": "\x00"}, "x")])), over=("There is 1 pod.",))
    column: Surveyed = Surveyed()
    dialect = object()

    text = column.process_bind_param(written, dialect)  # type: ignore[arg-type]

    assert column.process_result_value(text, dialect) == written  # type: ignore[arg-type]


def test_a_lock_that_ends_with_this_moment_is_still_one() -> None:
    later = NOW + timedelta(minutes=30)
    value = lock(r"{\"nodeID\":\"gpu-01\",\"created\":\"2026-11-29T12:00:00Z\",\"TTL\":1800000000000}")
    parts = {"cluster": said("u"), "node": said("cordoned no\nend"), "locks": said(value), "pods": said("0 pods")}

    assert read_kubernetes(parts, "gpu-01", uid="", now=later)[Kind.OWNERS] == KURED
