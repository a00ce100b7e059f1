"""Checks that lie, for tests/executors/test_confinement.py: each is known to do its harm where nothing confines it.

They act on canaries alone: files in the place's own /run, a process and a FUSE mount of the test's. What would harm the
machine sets what is already set, or asks in a way that the kernel refuses after it has asked for the right.
"""

#: Where a raw call is refused for want of the right, its error is EPERM; any other end means that it was let in.
_LET_IN = "perl -e '$r = syscall(%s); exit($r < 0 && $! == 1)'"


def raw(*arguments: object) -> str:
    """Return a command that makes a system call (numbers of x86_64) and fails when the kernel denies the right."""
    return _LET_IN % ", ".join(str(one) for one in arguments)


#: By name: what a script tries. `$at` is a folder, `$canary` a process, `$outside` one in another mount namespace,
#: `$abort` the abort file of a stuck connection.
HOSTILE = {
    "abort a FUSE connection": 'echo 1 >"$abort"',
    "abort it without truncating": 'printf 1 | dd of="$abort" conv=notrunc status=none',
    "abort it through the root of another": 'echo 1 >"/proc/$outside/root$abort"',
    "write a sysctl": "v=$(cat /proc/sys/vm/swappiness); echo $v >/proc/sys/vm/swappiness",
    "write to sysfs": "for f in /sys/block/*/queue/read_ahead_kb; do v=$(cat $f); echo $v >$f; exit; done",
    "change what a process would dump": 'echo 0x33 >"/proc/$canary/coredump_filter"',
    "make a process a victim": 'echo 500 >"/proc/$canary/oom_score_adj"',
    "make a file": 'echo x >"$at/new"',
    "make a file through the root of another": 'echo x >"/proc/$outside/root$at/new2"',
    "append to a file": 'echo x >>"$at/file"',
    "append through the root of another": 'echo x >>"/proc/$outside/root$at/file"',
    "truncate a file": 'truncate -s 1 "$at/file"',
    "change a mode": 'chmod 777 "$at/file"',
    "change a mode through the root of another": 'chmod 755 "/proc/$outside/root$at/file"',
    "change an owner": 'chown 1 "$at/file"',
    "change a time": 'touch -d 2001-01-01 "$at/file"',
    "change a time through the root of another": 'touch -d 2002-01-01 "/proc/$outside/root$at/file"',
    "set an attribute": "/usr/bin/python3 -c 'import os; os.setxattr(\"/run/canary/file\", \"trusted.x\", b\"x\")'",
    "rename a file": 'mv "$at/moved" "$at/away"',
    "remove a file": 'rm "$at/removed"',
    "remove through the root of another": 'rm "/proc/$outside/root$at/removed2"',
    "make a link": 'ln -s x "$at/link"',
    "make a folder": 'mkdir "$at/made"',
    "make a device": 'mknod "$at/null" c 1 3',
    "make a device in its own folder": 'f=$(mktemp -u); mknod "$f" c 1 3; rm "$f"',
    "write in /tmp": 'f=/tmp/unstick-test-$$; echo x >"$f"; rm "$f"',
    "change the mode of its input": "chmod 666 /proc/self/fd/0",
    "write into the memory of a process": 'exec 3<>"/proc/$canary/mem"',
    "write into it by a call": raw(311, '$ENV{canary}+0', 0, 0, 0, 0, 0),
    "trace a process": raw(101, 0x4206, '$ENV{canary}+0', 0, 0),
    "take a descriptor of a process": raw(438, 'syscall(434, $ENV{canary}+0, 0)', 0, 0),
    "slow a process": 'renice -n 3 -p "$canary"',
    "bind a process to a CPU": 'taskset -p 1 "$canary"',
    "limit a process": 'prlimit --pid "$canary" --core=0',
    "chroot elsewhere and write": 'chroot "/proc/$outside/root" sh -c "echo x >>$at/file"',
    "mount over a folder": 'mount -t tmpfs none "$at/over"',
    "mount the root for writing": "mount -o remount,bind,rw /",
    "take a mount away": 'umount "$at/mounted"',
    "make namespaces as a user": "unshare --user --map-root-user true",
    "make a mount namespace": "unshare --mount true",
    "enter the mounts of another": 'nsenter -t "$outside" -m true',
    "change the root mount": raw(155, r'$a = "\0"', r'$b = "\0"'),
    "load a module": raw(175, 0, 0, r'$a = "\0"'),
    "load a kernel": raw(246, 0, 99, 0, 0),
    "reboot": raw(169, 0, 0, 0, 0),
    "switch swap off": raw(168, r'$a = "/nowhere\0"'),
    "name the machine": 'hostname "$(hostname)"',
    "set the clock": raw(164, 0, 0),
    "change what the console shows": raw(103, 8, 0, "qx(cat /proc/sys/kernel/printk) + 0"),
    "detach a loop device": raw(16, 0, 0x4C01, 0),
    "eject a disc": raw(16, 0, 0x5309, 0),
    "speak to a board": raw(16, 0, 0x6910, 0),
    "load a BPF program": raw(321, 5, 0, 0),
    "open io_uring": raw(425, 0, 0),
    "use a keyring": raw(250, 0, -3, 0),
    "make a message queue": raw(240, r'$a = "/\0"', 0, 0, 0),
    "make shared memory that stays": raw(29, 1, 0, 0),
    "remove shared memory": raw(31, -1, 0, 0),
    "make semaphores that stay": raw(64, 0, -1, 0),
    "set a semaphore of everybody": raw(66, -1, 0, 16, 5),
    "make a queue that stays": raw(68, 1, 0),
    "remove a queue": raw(71, -1, 0, 0),
    "write to a device": 'echo x >"$at/device"',
    "stop a process": 'kill -STOP "$canary"',
    "kill a process": 'kill -KILL "$canary"',
}  # fmt: skip


def battery() -> str:
    """Return one script that tries all of it and prints `NAME: 0` for what was done, else another number."""
    lines = ["set +e"]
    for name, body in HOSTILE.items():
        quoted = body.replace("'", "'\\''")
        lines.append(f"bash -ec '{quoted}' </dev/null; echo \"{name}: $?\"")
    return "\n".join(lines) + "\nexit 0\n"
