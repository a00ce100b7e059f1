"""Runs the nodes' collector in a private mount namespace and reads what it wrote as Prometheus would."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from lab.private import PrivateMounts
from lab.process import wait_until
from tests.monitoring.promtool import MONITORING

SCRIPT = MONITORING / "textfile" / "unstick-node-metrics.sh"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: What was seen: each metric with its labels, "name{label=value,...}".
Seen = dict[str, float]


def read(text: str) -> Seen:
    """Return what a file of the collector says; ValueError when it is no such file."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {_key(sample.name, sample.labels): sample.value for sample in samples}


def _key(name: str, labels: dict[str, str]) -> str:
    told = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
    return name.removeprefix("unstick_node_") + (f"{{{told}}}" if told else "")


class Collector:
    """The collector of one place, with programs and folders of its own."""

    def __init__(self, place: PrivateMounts) -> None:
        self.place = place
        self.folder = Path(place.folder)
        self.out, self.programs, self.devices = (self.folder / name for name in ("out", "bin", "dev"))
        self.containerd = self.folder / "containerd"
        for folder in (self.out, self.programs, self.devices, self.containerd):
            folder.mkdir()
        #: What it said of what it could not look at, the last time.
        self.said = ""

    @property
    def file(self) -> Path:
        return self.out / "unstick-node.prom"

    def has(self, program: str, body: str) -> None:
        """Put a program before all others on PATH."""
        file = self.programs / program
        file.write_text(f"#!/bin/bash\n{body}\n")
        file.chmod(0o755)

    def look(self, *without: str, seconds: int = 20) -> Seen:
        """Run it once, behind a command line prefix if given; it ends well, whatever it could not look at."""
        environment = {
            "PATH": f"{self.programs}:{PATH}",
            "UNSTICK_STATE": str(self.folder / "state"),
            "UNSTICK_SECONDS": str(seconds),
            "UNSTICK_CONTAINERD": str(self.containerd),
            "UNSTICK_DEVICES": str(self.devices),
        }
        said = self.folder / "said"
        with said.open("w") as stream:
            done = subprocess.run(
                [*self.place.enter_prefix, *without, "bash", str(SCRIPT), str(self.out)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment,
                cwd="/",
                timeout=120,
                check=False,
            )
        self.said = said.read_text()
        assert done.returncode == 0, self.said
        assert sorted(file.name for file in self.out.iterdir()) == [self.file.name]
        return read(self.file.read_text())

    def look_until(self, key: str, least: float) -> Seen:
        """Look until a metric has reached a value."""
        kept: list[Seen] = []

        def reached() -> bool:
            kept[:] = [self.look()]
            return kept[0].get(key, 0) >= least

        wait_until(reached, f"{key} reaches {least}")
        return kept[0]

    def holder(self, name: str, command: Sequence[str], *, device: str = "nvidia0") -> int:
        """Start a program that holds a device file open; return its pid."""
        file = self.devices / device
        file.touch()
        pid = self.place.start(name, ["bash", "-c", f'exec 7<>{file}; exec "$@"', "bash", *command])
        wait_until(lambda: Path(f"/proc/{pid}/fd/7").exists(), "the device is open")
        return pid
