"""SSM Run Command of the demo: the stand-in of lab.ssm as a process of its own, for one booted node."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping

from lab import leftovers
from lab.closing import Closing
from lab.guardian import REPOSITORY, guarded_record
from lab.nodes import Node
from lab.process import Process, wait_until
from lab.ssm.remote import Remote

INSTANCE = "i-0123456789abcdef0"
READY = "# Ctrl-C ends it"
START_SECONDS = 30.0
#: It lets scripts go first.
STOP_SECONDS = 20.0
#: So that nothing of AWS that the surroundings know is asked instead, and no proxy for a port of loopback.
APART = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "no_proxy": "127.0.0.1"}


class RunCommand(Closing):
    """The stand-in at work; it enters the node as an agent on it would, and not over the network."""

    def __init__(self, node: Node) -> None:
        """Start it; RuntimeError when it ends instead of serving."""
        self._record = guarded_record(f"demo-ssm-{os.getpid()}")
        folder = leftovers.run_folder() / self._record.name
        self._record.folders.append(str(folder))
        self._record.save()
        folder.mkdir(mode=0o700)
        self._out = folder / "serve.out"
        # By its folder, for another node on this machine may have the same name.
        command = [sys.executable, "-m", "lab.ssm", "serve", "--node", f"{node.folder_here}={INSTANCE}"]
        with self._out.open("wb") as out:
            self._server = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                # It reads AWS's shapes by botocore, which would look for a profile that is named here.
                env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._record.processes.append(Process.of(self._server.pid))
        self._record.save()
        wait_until(lambda: self._ready() or self._server.poll() is not None, "it serves", seconds=START_SECONDS)
        if not self._ready():
            raise RuntimeError(f"the stand-in of Run Command ended: {self._out.read_text().strip()}")

    @property
    def environment(self) -> Mapping[str, str]:
        """Give what the service needs in its environment: endpoint, credentials, region."""
        lines = self._out.read_text().splitlines()
        exports = (line.removeprefix("export ") for line in lines if line.startswith("export "))
        return dict(export.split("=", 1) for export in exports) | APART

    @property
    def url(self) -> str:
        """Give the endpoint."""
        return self.environment["AWS_ENDPOINT_URL_SSM"]

    @property
    def region(self) -> str:
        """Give the region that it plays."""
        return self.environment["AWS_DEFAULT_REGION"]

    def asked(self) -> dict[str, int]:
        """Count the calls by their operation, as it has seen them."""
        return dict(sorted(Counter(call["operation"] for call in Remote.of(self.environment).calls()).items()))

    def close(self) -> None:
        """End it, and all scripts with it."""
        self._server.terminate()
        try:
            self._server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._record.undo()

    def _ready(self) -> bool:
        return READY in self._out.read_text().splitlines()
