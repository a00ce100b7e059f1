"""Build the root file system of a node once and keep it: `python -m lab.rootfs` prints its folder.

It is a Debian 12 made by mmdebstrap from this machine's own apt sources. It is never booted itself: each node is an
overlay on it. Host keys are made per node; the key that may log in is made here, once per cache.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("UNSTICK_LAB_CACHE", REPOSITORY / ".cache" / "lab"))
PREPARE = Path(__file__).resolve().parent / "rootfs_prepare.sh"
SUITE = "bookworm"
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "libpam-systemd", "openssh-server", "procps", "iproute2", "fuse3",
    "python3-minimal", "psmisc", "sudo", "login", "passwd",
)  # fmt: skip
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True)
class RootFileSystem:
    """The folder of the root file system, and the private key that may log in to nodes made of it."""

    folder: Path
    private_key: Path


def recipe_stamp() -> str:
    """Give a name for what is built: it changes when anything that goes into it does."""
    parts = [SUITE, *PACKAGES, *LEFT_OUT, PREPARE.read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def ready(cache: Path = CACHE) -> RootFileSystem | None:
    """Give the root file system if it was built already by the present recipe."""
    built = _names(cache)
    return built if built.folder.is_dir() else None


def build(cache: Path = CACHE, *, say: Callable[[str], None] = lambda _: None) -> RootFileSystem:
    """Give the root file system, building it if need be (about a minute); only root can.

    Two processes that ask at once get the same one: the second waits for the lock. What an older recipe made is removed
    unless a node still runs on it. `say` is told what takes its time.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = _names(cache)
        if not built.private_key.exists():
            # What was built lets in a key that is lost.
            _remove_unused(cache)
            _make_key(built.private_key)
        if not built.folder.is_dir():
            _remove_unused(cache)
            say("building the root file system of a node with mmdebstrap: about a minute, once")
            _bootstrap(built)
            say(f"built {built.folder}")
        return built


def own_sources() -> list[str]:
    """Give this machine's apt sources of the suite as one-line entries; none where it runs another release.

    With none mmdebstrap takes Debian's own. The field names are those of apt-get(8) indextargets.
    """
    fields = ("CREATED_BY", "REPO_URI", "RELEASE", "COMPONENT", "SIGNED_BY")
    wanted = "|".join(f"$({name})" for name in fields)
    told = subprocess.run(["apt-get", "indextargets", "--format", wanted], capture_output=True, text=True, check=True)
    lines = []
    for line in told.stdout.splitlines():
        created_by, address, release, component, signed_by = line.split("|")
        ours = release == SUITE or release.startswith(f"{SUITE}-")
        if created_by == "Packages" and component == "main" and ours and not release.endswith("-backports"):
            # A field that a source does not have is printed as it was asked for.
            option = f"[signed-by={signed_by}] " if signed_by.startswith("/") else ""
            lines.append(f"deb {option}{address} {release} {component}")
    return list(dict.fromkeys(lines))


def _names(cache: Path) -> RootFileSystem:
    return RootFileSystem(folder=cache / f"rootfs-{recipe_stamp()}", private_key=cache / "id_ed25519")


def _make_key(private_key: Path) -> None:
    unfinished = private_key.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "unstick-lab", "-f", unfinished], check=True)
    unfinished.with_suffix(".new.pub").replace(private_key.with_suffix(".pub"))
    unfinished.replace(private_key)


def _bootstrap(built: RootFileSystem) -> None:
    unfinished = built.folder.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    command += [f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT]
    # What a failure of the power would spoil is made anew.
    command += ["--dpkgopt=force-unsafe-io"]
    try:
        _run([*command, SUITE, str(unfinished), *own_sources()])
        shutil.copy(PREPARE, unfinished / "tmp/prepare.sh")
        shutil.copy(built.private_key.with_suffix(".pub"), unfinished / "tmp/authorized_keys")
        _run(["chroot", str(unfinished), "/bin/bash", "/tmp/prepare.sh"])
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    unfinished.rename(built.folder)


def _remove_unused(cache: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    for old in cache.glob("rootfs-*"):
        if f"lowerdir={old}," not in mounts:
            shutil.rmtree(old, ignore_errors=True)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed ({done.returncode}): {(done.stdout + done.stderr)[-3000:]}")


def main() -> int:
    """Build if need be, print the folder."""
    if os.getuid() != 0:
        print("only root can build the root file system of a node", file=sys.stderr)
        return 1
    print(build(say=lambda words: print(words, file=sys.stderr)).folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
