"""The filter of system calls of a confined script, played for both machines, since this one is only one of them."""

import errno
import struct
import subprocess
from functools import cache
from importlib.resources import files

import pytest

#: The numbers of what is refused on x86_64 and aarch64 (Linux, asm/unistd_64.h and asm-generic/unistd.h).
REFUSED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "setns": (308, 268), "unshare": (272, 97),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "open_by_handle_at": (304, 265), "acct": (163, 89),
    "quotactl": (179, 60), "semop": (65, 193), "semtimedop": (220, 192), "shmat": (30, 196), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "mq_open": (240, 180), "mq_unlink": (241, 181), "fanotify_init": (300, 262),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "vhangup": (153, 58), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "mount_setattr": (442, 442), "quotactl_fd": (443, 443),
    "open_tree_attr": (467, 467), "shmget": (29, 194), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191),
    "msgget": (68, 186), "msgctl": (71, 187),
}  # fmt: skip
#: These are refused by what they are asked for.
SYSLOG, CLONE, IOCTL, CLONE3 = (103, 116), (56, 220), (16, 29), 435
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
FOREIGN = {"i386": 0x40000003, "arm": 0x40000028}
ALLOW, DENY, UNKNOWN = "allow", errno.errorcode[errno.EPERM], errno.errorcode[errno.ENOSYS]

PRINT = """
HOSTTYPE=$1
. "$0"
declare -A calls
list_calls && filter_calls && printf '%s' "${operations[1]##* p}"
"""


@cache
def program(machine: str) -> tuple[tuple[int, int, int, int], ...]:
    """Return the filter's instructions for a machine: code, where to on true and on false, operand (filter.h)."""
    script = str(files("service.executors").joinpath("confine.sh"))
    made = subprocess.run(["bash", "-c", PRINT, script, machine], capture_output=True, check=True, text=True)
    return tuple(struct.iter_unpack("<HBBI", bytes.fromhex(made.stdout)))


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> str:
    """Play the filter for one call, as the kernel does (seccomp(2): struct seccomp_data)."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, MACHINES[machine] if architecture is None else architecture, 0, *padded)
    instructions, at, held = program(machine), 0, 0
    while True:
        code, on_true, on_false, operand = instructions[at]
        at += 1
        match code:
            case 0x20:
                (held,) = struct.unpack_from("<I", data, operand)
            case 0x54:
                held &= operand
            case 0x15:
                at += on_true if held == operand else on_false
            case 0x35:
                at += on_true if held >= operand else on_false
            case 0x45:
                at += on_true if held & operand else on_false
            case 0x06 if operand == 0x7FFF0000:
                return ALLOW
            case 0x06 if operand >> 16 == 5:
                return errno.errorcode[operand & 0xFFFF]
            case _:
                raise AssertionError(f"{code:#x} {operand:#x}")


@pytest.mark.parametrize(("column", "machine"), list(enumerate(MACHINES)))
def test_the_same_calls_are_refused_on_both_machines(column: int, machine: str) -> None:
    own = {SYSLOG[column], CLONE[column], IOCTL[column]}
    beside = {172, 173} if machine == "x86_64" else set()  # iopl, ioperm

    refused = {number for number in range(600) if verdict(machine, number) == DENY}

    assert refused - own == {numbers[column] for numbers in REFUSED.values()} | beside


@pytest.mark.parametrize("machine", list(MACHINES))
def test_no_call_passes_by_the_numbers_of_another_machine(machine: str) -> None:
    others = {*MACHINES.values(), *FOREIGN.values()} - {MACHINES[machine]}

    assert {verdict(machine, 0, architecture=one) for one in others} == {DENY}
    assert verdict("x86_64", 0x40000000) == DENY  # x32


@pytest.mark.parametrize(("column", "machine"), list(enumerate(MACHINES)))
def test_a_process_may_be_made_and_a_namespace_not(column: int, machine: str) -> None:
    namespaces = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)  # sched.h: CLONE_NEW*
    thread = 0x3D0F00

    assert verdict(machine, CLONE[column], thread) == ALLOW
    assert {verdict(machine, CLONE[column], one | 17) for one in namespaces} == {DENY}
    assert verdict(machine, CLONE3) == UNKNOWN


@pytest.mark.parametrize(("column", "machine"), list(enumerate(MACHINES)))
def test_the_log_of_the_kernel_may_be_read_and_not_cleared(column: int, machine: str) -> None:
    allowed = [kind for kind in range(12) if verdict(machine, SYSLOG[column], kind) == ALLOW]

    assert allowed == [3, 9, 10]  # syslog(2): READ_ALL, SIZE_UNREAD, SIZE_BUFFER


@pytest.mark.parametrize(("column", "machine"), list(enumerate(MACHINES)))
def test_a_device_that_was_opened_to_be_read_is_not_told_to_act(column: int, machine: str) -> None:
    acting = (0x5412, 0x4C01, 0x4C80, 0x5309, 0x6910)  # TIOCSTI, LOOP_CLR_FD, LOOP_CTL_ADD, CDROMEJECT, IPMI
    asking = (
        0x5401,
        0x5413,
        0x541B,
        0x80081272,
        0xC020462A,
        0x8933,
    )  # TCGETS, TIOCGWINSZ, FIONREAD, of disks, GPUs, nets

    assert {verdict(machine, IOCTL[column], 3, one) for one in acting} == {DENY}
    assert {verdict(machine, IOCTL[column], 3, one) for one in asking} == {ALLOW}


def test_what_is_no_such_machine_is_not_confined() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        program("riscv64")
