"""The three ways to show the service, best first: what each needs, what is in its way, and what has to be installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path

from lab import rootfs

#: Programs of this machine that a booted node needs, each with its Debian package (see apt-packages.txt).
PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "gpg": "gpg",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}


class Way(IntEnum):
    """How the service is shown."""

    NODE = 1
    NAMESPACE = 2
    LOOK = 3


TITLES: Mapping[Way, str] = {
    Way.NODE: "a booted node, reached over SSH",
    Way.NAMESPACE: "the same in a private mount namespace of this machine",
    Way.LOOK: "a read-only look at this machine",
}


def titles(executor: str | None) -> dict[Way, str]:
    """Give the ways in words, when this executor was asked for by name."""
    by_ssm = {Way.NODE: "a booted node, reached by SSM Run Command"}
    return {**TITLES, **(by_ssm if executor == "ssm" else {})}


class Obstacle(Exception):
    """A way cannot be gone; the text says why."""


def obstacles() -> dict[Way, str]:
    """Say what is in the way of each way, in words for a person; what is not named here should work."""
    found: dict[Way, str] = {}
    if not Path("/proc/self/mountinfo").exists():
        return dict.fromkeys(Way, "needs Linux")
    fuse = _no_fuse()
    if fuse:
        found |= {Way.NODE: fuse, Way.NAMESPACE: fuse}
    elif missing_packages() and shutil.which("apt-get") is None:
        found[Way.NODE] = f"needs {', '.join(missing_programs())}, and there is no apt-get to install it"
    return found


def missing_programs() -> list[str]:
    """Name the programs that a booted node needs and this machine lacks."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


def missing_packages() -> list[str]:
    """Name the Debian packages that bring them."""
    return list(dict.fromkeys(PROGRAMS[program] for program in missing_programs()))


def installs() -> list[str]:
    """Say what a booted node will put on this machine, a line each; none when all is there."""
    packages = missing_packages()
    lines = [f"apt-get install {' '.join(packages)}"] if packages else []
    if rootfs.ready() is None:
        lines.append(f"a small Debian 12 for the node, about 300 MB, in {_near(rootfs.CACHE)}")
    return lines


def install(packages: Sequence[str]) -> None:
    """Install Debian packages; Obstacle with the last words of apt-get."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            check=False,
        )
        if done.returncode != 0:
            raise Obstacle(f"apt-get {words[0]} failed: {last_line(done.stdout)}")


def agreed(environment: Mapping[str, str]) -> bool:
    """Ask whether that may be installed; YES=1 answers, and where nobody can be asked the answer is no."""
    if environment.get("YES") == "1":
        return True
    if not sys.stdin.isatty():
        return False
    return input("Install it? [y/N] ").strip().lower() in ("y", "yes")


def last_line(text: str) -> str:
    """Give the last line of a text that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def _no_fuse() -> str | None:
    if os.geteuid() != 0:
        return "needs root; `sudo make demo` shows it"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"needs /dev/fuse: {error.strerror}"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return f"needs a mount namespace: {last_line(tried.stderr)}" if tried.returncode != 0 else None


def _near(path: Path) -> str:
    """Give a path as seen from the checkout, where it lies in it."""
    return str(path.relative_to(rootfs.REPOSITORY)) if path.is_relative_to(rootfs.REPOSITORY) else str(path)
