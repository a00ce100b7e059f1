"""A command imports what it uses: large libraries are most of the start of a command that needs none of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.installation import PATIENCE, Installation

#: Those that only some commands need. Each is imported in a process of its own, which says at its end what it has.
PROGRAM = """\
import sys
from service.cli import main

large = {"alembic", "boto3", "fastapi", "paramiko", "sqlalchemy", "uvicorn"}
sys.argv[0] = "unstick"
try:
    main()
except SystemExit:
    pass
finally:
    print("\\nimported:", *sorted(large & set(sys.modules)))
"""


#: Interrupts itself when the module that its first argument names is looked for.
INTERRUPTED = """\
import os, signal, sys

name = sys.argv.pop(1)

class Interrupting:
    def find_spec(self, wanted, path=None, target=None):
        if wanted == name:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv[0] = "unstick"
from service.cli import main
sys.exit(main())
"""


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "place")


def imported(place: Installation, *arguments: str) -> list[str]:
    """Return which of the large libraries a command imports."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=place.folder,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    words = done.stdout.splitlines()[-1].split()
    assert words[0] == "imported:", done.stderr
    return words[1:]


@pytest.mark.parametrize(
    "command", ["--help", "lint", "schema", "plan look --node n00", "nodes --help", "nodes add x", "audit list", "runs"]
)
def test_a_command_on_files_or_on_a_service_imports_neither_ssh_nor_database_nor_web(
    place: Installation, command: str
) -> None:
    assert imported(place, *command.split()) == []


def test_a_command_on_the_database_imports_that_alone(place: Installation) -> None:
    assert imported(place, "token", "create", "--name", "ann", "--role", "viewer") == ["alembic", "sqlalchemy"]


def test_a_command_that_asks_nodes_imports_ssh(place: Installation) -> None:
    (place.folder / "config" / "inventory.yaml").write_text("nodes: {a: {executor: ssh, address: 127.0.0.1, port: 9}}")

    found = imported(place, "nodes", "check")

    assert ("paramiko" in found, "boto3" in found) == (True, False)


def test_a_command_that_asks_a_node_of_aws_imports_its_library(place: Installation) -> None:
    file = place.folder / "config" / "inventory.yaml"
    file.write_text("nodes: {a: {executor: ssm, instance: i-01234567, profile: nobody}}")

    assert "boto3" in imported(place, "nodes", "check")


@pytest.mark.parametrize(
    "module", ["service.cli.program", "typer", "service.domain.errors", "httpx", "service.cli.looking"]
)
def test_who_interrupts_a_command_while_it_is_loaded_hears_nothing(place: Installation, module: str) -> None:
    done = subprocess.run(
        # Whoever plays the tests in the background ignores the signal, and a child would inherit that.
        ["env", "--default-signal=INT", sys.executable, "-c", INTERRUPTED, module, "runs"],
        cwd=place.folder,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
