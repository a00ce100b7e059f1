"""A container engine of its own for one test: podman in a network and mount namespace that end with it."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLS = ("podman", "docker-compose", "mmdebstrap", "runc", "nsenter", "unshare")
_FETCH = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1])
if sys.argv[2]:
    request.add_header("Authorization", "Bearer " + sys.argv[2])
sys.stdout.write(urllib.request.urlopen(request, timeout=5).read().decode())
"""


def missing_tools() -> list[str]:
    """Return the programs that are not installed; `.ci/apt .ci/apt-proof.txt` brings them."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


class Engine:
    """Podman with its images in `cache` and its socket in `folder`; ports are bound in its own namespace."""

    def __init__(self, cache: Path, folder: Path) -> None:
        self._cache = cache
        self._socket = folder / "engine.sock"
        self._folder = folder
        self._podman = [
            "podman", "--root", str(cache / "root"), "--runroot", str(cache / "run"), "--tmpdir", str(cache / "tmp"),
            "--network-config-dir", str(folder / "networks"), "--storage-driver", "overlay",
        ]  # fmt: skip
        self._environment = {
            **os.environ,
            "CONTAINERS_CONF": str(HERE / "containers.conf"),
            "DOCKER_HOST": f"unix://{self._socket}",
            "COMPOSE_PROJECT_NAME": "unstickproof",
        }
        self._ended = threading.Event()
        self._enter: list[str] = []

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._open(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _open(self, undo: ExitStack) -> None:
        (self._folder / "networks").mkdir()
        for name in ("run", "tmp"):
            # Podman remembers these paths beside its images, so they stay; what a killed run left there does not.
            shutil.rmtree(self._cache / name, ignore_errors=True)
            (self._cache / name).mkdir(parents=True)
        space = _start(["unshare", "--net", "--mount", "--propagation", "private", "sleep", "infinity"], undo=undo)
        own, new = Path("/proc/self/ns/net"), Path(f"/proc/{space.pid}/ns/net")
        _until(lambda: new.readlink() != own.readlink(), "a namespace")
        self._enter = ["nsenter", f"--target={space.pid}", "--net", "--mount"]
        self.inside(["ip", "link", "set", "lo", "up"])
        serve = [*self._enter, *self._podman, "system", "service", "--time=0", f"unix://{self._socket}"]
        _start(serve, undo=undo, environment=self._environment)
        _until(self._socket.exists, "the engine's socket")
        self._remove_leftovers()
        undo.callback(self._remove_leftovers)
        health = threading.Thread(target=self._ask_health)
        health.start()
        undo.callback(health.join)
        undo.callback(self._ended.set)

    def _remove_leftovers(self) -> None:
        # A volume that stays has the password of an earlier run in it.
        self.podman("rm", "--all", "--force", "--volumes", "--time=1")
        self.podman("volume", "rm", "--all", "--force")

    def inside(self, command: Sequence[str], *, folder: Path = ROOT) -> str:
        """Run a command in the engine's namespaces and return what it printed; an exit code but 0 is an error."""
        return _run([*self._enter, f"--wd={folder}", *command], self._environment)

    def podman(self, *arguments: str) -> str:
        """Run podman in the engine's namespaces."""
        return self.inside([*self._podman, *arguments])

    def build(self, tag: str) -> None:
        """Make the base images if they are missing, and build the Dockerfile with the network of this machine."""
        _run([str(HERE / "base_images.sh"), str(self._cache), *self._podman], self._environment)
        options = [
            "build",
            "--quiet",
            "--isolation=chroot",
            "--network=host",
            "--format=docker",
            "--tag",
            tag,
            str(ROOT),
        ]
        _run([*self._podman, *options], self._environment)

    def fetch(self, url: str, *, token: str = "") -> str:
        """Return the body that a GET inside the engine's network gives."""
        return self.inside([sys.executable, "-c", _FETCH, url, token])

    def _ask_health(self) -> None:
        """Run the containers' health checks: podman leaves their timing to a systemd, which a test machine may lack."""
        while not self._ended.wait(1):
            with suppress(subprocess.CalledProcessError):
                for container in self.podman("ps", "--quiet").split():
                    with suppress(subprocess.CalledProcessError):
                        self.podman("healthcheck", "run", container)


def _start(
    command: Sequence[str], *, undo: ExitStack, environment: dict[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    # The kernel ends it when the test process dies without cleaning up.
    tied = ["setpriv", "--pdeathsig", "TERM", *command]
    process = subprocess.Popen(tied, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    undo.callback(process.wait)
    undo.callback(process.terminate)
    return process


def _run(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode != 0:
        error = subprocess.CalledProcessError(done.returncode, list(command), done.stdout, done.stderr)
        error.add_note(done.stdout[-4000:] + done.stderr[-4000:])
        raise error
    return done.stdout


def _until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        if time.monotonic() > deadline:
            message = f"waited in vain for {what}"
            raise TimeoutError(message)
        time.sleep(0.1)
