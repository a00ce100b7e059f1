"""Sources of nodes as the commands show them, with a scontrol that is a script."""

from pathlib import Path

import pytest

from service.domain.person import Role
from tests.cli.installation import Installation, Someone

INVENTORY = """\
nodes: {{here: {{executor: local, view: private}}}}
controllers: {{head: {{executor: local, view: private, path: '{folder}:/usr/bin:/bin'}}}}
node_sources:
  batch: {{kind: slurm, controller: head, node: {{executor: ssh, key_file: none}}}}
"""
TWICE = "NodeName=gpu-02 NodeAddr=192.0.2.2 State=IDLE\nNodeName=gpu-02 NodeAddr=192.0.2.3 State=IDLE\n"


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    made = Installation(tmp_path / "place")
    (made.folder / "config" / "inventory.yaml").write_text(INVENTORY.format(folder=tmp_path))
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\ncat {tmp_path}/listing\n")
    (tmp_path / "scontrol").chmod(0o755)
    (tmp_path / "listing").write_text("NodeName=gpu-01 NodeAddr=192.0.2.1 State=IDLE Partitions=h100\n")
    return made


def test_doctor_asks_each_source_and_says_which_name_is_not_clear(place: Installation, tmp_path: Path) -> None:
    with (tmp_path / "listing").open("a") as listing:
        listing.write(TWICE)

    done = place("doctor")

    assert done.returncode == 1
    assert "good  The source batch of nodes (slurm): 1 nodes" in done.stdout
    assert "BAD   By the source batch gpu-02 is the name of 2 machines: 192.0.2.2, 192.0.2.3." in done.stdout


def test_doctor_says_why_a_source_does_not_answer(place: Installation, tmp_path: Path) -> None:
    (tmp_path / "listing").unlink()

    done = place("doctor")

    assert done.returncode == 1
    assert "BAD   The source batch of nodes does not answer. The command on the controller head failed" in done.stdout


def test_a_plan_is_made_on_a_node_that_only_a_source_knows(place: Installation) -> None:
    known, unknown = place("plan", "look", "--node", "gpu-01"), place("plan", "look", "--node", "gpu-09")

    assert (known.returncode, unknown.returncode) == (0, 2)
    assert "There is no node gpu-09" in unknown.stderr


def test_a_running_service_shows_its_sources(place: Installation) -> None:
    with place.serving() as serving:
        ann = Someone(place, serving.url, place.token("ann", Role.OPERATOR))
        done = ann("nodes")

    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[:3] == [
        ["NODE", "EXECUTOR", "ADDRESS", "POOLS", "HELD", "BY,", "WHY", "RUN", "SOURCE"],
        ["gpu-01", "ssh", "192.0.2.1", "h100", "-", "-", "batch"],
        ["here", "local", "here", "-", "-", "-", "-"],
    ]
    assert lines[5][:4] == ["batch", "slurm", "1", lines[5][3]]
