#!/usr/bin/env python3
"""A FUSE server without libfuse that can be told to misbehave.

It needs no more than Debian's python3-minimal (no json, ctypes or shutil), because it runs inside the lab's nodes too.
Its files: `/ok` answers, `/stuck` takes a READ and never answers it, `/unread` stops the server from reading the device
as soon as it is opened, so that later requests stay queued in the kernel, `/stream` never ends and always answers.

The wire format is the kernel's include/uapi/linux/fuse.h, protocol 7.31.
"""

import argparse
import errno
import os
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 27, 28, 29, 36, 38, 42
UNANSWERED = frozenset({FORGET, BATCH_FORGET})
EMPTY_ANSWER = frozenset({READDIR, RELEASE, RELEASEDIR, FLUSH, DESTROY})
NEVER_SLOW = UNANSWERED | {INIT, INTERRUPT}

ROOT, OK, STUCK, UNREAD, STREAM = 1, 2, 3, 4, 5
INODES = {b"ok": OK, b"stuck": STUCK, b"unread": UNREAD, b"stream": STREAM}
CONTENT = b"hello\n"
SIZES = {ROOT: 0, OK: len(CONTENT), STUCK: 1 << 20, UNREAD: 1 << 20, STREAM: 1 << 62}
DIRECT_IO = 1  # FOPEN_DIRECT_IO
ASYNC_READ = 1  # FUSE_ASYNC_READ
BUFFER_BYTES = (1 << 20) + 4096
HELPER_SECONDS = "86400"


class Server:
    """One mounted file system and its end of the connection."""

    def __init__(self, device: int, options: argparse.Namespace) -> None:
        """Keep the opened /dev/fuse and the way to misbehave."""
        self.device = device
        self.options = options

    def serve(self) -> None:
        """Answer requests until the connection is aborted or unmounted."""
        while True:
            try:
                request = os.read(self.device, BUFFER_BYTES)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                raise
            length, opcode, unique, inode = struct.unpack_from("<IIQQ", request)
            if self.options.slow and opcode not in NEVER_SLOW:
                time.sleep(self.options.slow)
            self.answer(opcode, unique, inode, request[40:length])

    def answer(self, opcode: int, unique: int, inode: int, body: bytes) -> None:
        """Answer one request, or leave it unanswered if its file is of that kind."""
        if opcode in UNANSWERED or (opcode == INTERRUPT and not self.options.refuse_interrupt):
            return
        if opcode in EMPTY_ANSWER:
            self.reply(unique)
        elif opcode == INIT:
            self.reply(unique, self.greeting(body))
        elif opcode == LOOKUP:
            self.look_up(unique, body)
        elif opcode == GETATTR:
            self.reply(unique, struct.pack("<QII", 1, 0, 0) + attributes(inode))
        elif opcode in (OPEN, OPENDIR):
            self.open(unique, inode, direct=opcode == OPEN and (self.options.direct or inode == STREAM))
        elif opcode == READ:
            self.read(unique, inode, body)
        elif opcode == STATFS:
            self.reply(unique, struct.pack("<5Q4I24x", 1, 1, 1, 1, 1, 4096, 255, 4096, 0))
        else:
            self.reply(unique, error=errno.ENOSYS)

    def open(self, unique: int, inode: int, *, direct: bool) -> None:
        """Answer an OPEN; after that of /unread nothing is read from the device any more."""
        self.reply(unique, struct.pack("<QII", inode, DIRECT_IO if direct else 0, 0))
        if inode == UNREAD:
            self.tell_stuck()
        while inode == UNREAD:
            time.sleep(3600)

    def greeting(self, body: bytes) -> bytes:
        """Give fuse_init_out: protocol 7.31, at most 12 requests in the background."""
        _major, _minor, read_ahead, offered = struct.unpack_from("<4I", body)
        wanted = offered & (ASYNC_READ if self.options.asynchronous else 0)
        return struct.pack("<4I2H2I2H8I", 7, 31, read_ahead, wanted, 12, 9, 131072, 1, 32, 0, *[0] * 8)

    def look_up(self, unique: int, body: bytes) -> None:
        """Answer with the inode of a name, or that there is none."""
        inode = INODES.get(body.rstrip(b"\0"))
        if inode is None:
            self.reply(unique, error=errno.ENOENT)
        else:
            self.reply(unique, struct.pack("<4Q2I", inode, 0, 1, 1, 0, 0) + attributes(inode))

    def read(self, unique: int, inode: int, body: bytes) -> None:
        """Answer a READ; one of /stuck is taken and forgotten."""
        if inode == STUCK:
            self.tell_stuck()
            return
        offset, size = struct.unpack_from("<QI", body, 8)
        if inode == STREAM:
            time.sleep(self.options.pace)
            self.reply(unique, bytes(size))
        else:
            self.reply(unique, CONTENT[offset : offset + size])

    def tell_stuck(self) -> None:
        """Leave a mark beside the report: from here on a reader waits for what will not come."""
        Path(self.options.report + ".stuck").touch()

    def reply(self, unique: int, payload: bytes = b"", *, error: int = 0) -> None:
        """Write one answer; ENOENT says that the asker was interrupted meanwhile."""
        try:
            os.write(self.device, struct.pack("<IiQ", 16 + len(payload), -error, unique) + payload)
        except OSError as refused:
            if refused.errno not in (errno.ENOENT, errno.ENODEV):
                raise


def attributes(inode: int) -> bytes:
    """Give fuse_attr of an inode, 88 bytes."""
    mode = stat.S_IFDIR | 0o755 if inode == ROOT else stat.S_IFREG | 0o644
    size = SIZES[inode]
    now = int(time.time())
    return struct.pack("<6Q10I", inode, size, size // 512 + 1, now, now, now, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def mount(device: int, options: argparse.Namespace) -> None:
    """Mount with mount(8), which inherits the descriptor; `-i` keeps it from calling mount.fuse."""
    data = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,nosuid,nodev"
    command = ["mount", "-i", "-t", options.fstype, "-o", data, options.source, options.mountpoint]
    subprocess.run(command, pass_fds=[device], check=True)


def connection_of(mountpoint: str) -> int:
    """Read the connection number from mountinfo: the minor of the mount's device (Documentation/filesystems/fuse)."""
    found = 0
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[4].encode().decode("unicode_escape") == mountpoint:
            found = int(fields[2].split(":")[1])
    return found


def start_helper(device: int, name: str) -> int:
    """Start a copy of sleep under the name of a mount helper that keeps the descriptor it inherits; return its pid."""
    folder = Path("/tmp") / f"rawfuse-{os.getpid()}"
    folder.mkdir(mode=0o700)
    program = folder / name
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o700)
    quiet = subprocess.DEVNULL
    helper = subprocess.Popen(
        [str(program), HELPER_SECONDS],
        pass_fds=[device],
        start_new_session=True,
        stdin=quiet,
        stdout=quiet,
        stderr=quiet,
    )
    program.unlink()
    folder.rmdir()
    return helper.pid


def report(path: str, facts: dict[str, int]) -> None:
    """Write the facts as `name number` lines, whole or not at all."""
    unfinished = Path(path + ".new")
    unfinished.write_text("".join(f"{name} {number}\n" for name, number in facts.items()))
    unfinished.replace(path)


def arguments(given: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mountpoint")
    parser.add_argument("--report", required=True, help="file to which pid, helper and connection are written")
    parser.add_argument("--fstype", default="fuse.rclone")
    parser.add_argument("--source", default="bucket:data")
    parser.add_argument("--comm", default="rclone", help="the name the server shows in /proc")
    parser.add_argument("--direct", action="store_true", help="no page cache")
    parser.add_argument("--async", dest="asynchronous", action="store_true", help="negotiate asynchronous reads")
    parser.add_argument("--refuse-interrupt", action="store_true", help="answer INTERRUPT with ENOSYS")
    parser.add_argument("--slow", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--pace", type=float, default=0.02, help="seconds before each answer of /stream")
    parser.add_argument("--helper", default="fusermount-server", help="name of the process that keeps the descriptor")
    parser.add_argument("--no-helper", action="store_true", help="nobody but the server has the descriptor")
    return parser.parse_args(given)


def main() -> None:
    """Mount, report and serve."""
    options = arguments(sys.argv[1:])
    # Before mounting: afterwards looking at the mount point would wait for this very process.
    options.mountpoint = os.path.realpath(options.mountpoint)
    Path("/proc/self/comm").write_text(options.comm)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    mount(device, options)
    helper = 0 if options.no_helper else start_helper(device, options.helper)
    report(options.report, {"pid": os.getpid(), "helper": helper, "connection": connection_of(options.mountpoint)})
    Server(device, options).serve()


if __name__ == "__main__":
    main()
