"""The rules of the house that no other tool checks."""

import subprocess
import sys
from pathlib import Path

import pytest

from service import resources
from service.inventory.build import build_inventory
from tools import structure

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_finds_its_runbooks_at_the_top() -> None:
    found = resources.runbooks_folder(), resources.migrations_folder()

    assert found == (ROOT / "runbooks", ROOT / "migrations")


def test_a_skip_is_a_failure_where_none_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())
    (tmp_path / "test_self.py").write_text("import pytest\n\n\ndef test_it():\n    pytest.skip('no root')\n")
    (tmp_path / "test_module.py").write_text("import pytest\n\npytest.importorskip('no_such_module')\n")

    command = [
        sys.executable,
        "-m",
        "pytest",
        "--disable-plugin-autoload",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
        str(tmp_path),
    ]
    done = subprocess.run(
        command,
        env={"UNSTICK_NO_SKIPS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stdout.count("a skip is a failure here (UNSTICK_NO_SKIPS=1)") == 2
    assert "1 failed, 1 error" in done.stdout


@pytest.mark.parametrize(("upper", "lower"), [("web", "domain"), ("cli", "main"), ("executors", "app")])
def test_the_drawing_accepts_an_arrow_that_points_down(upper: str, lower: str) -> None:
    assert structure.faults_of({(upper, lower): 1}) == []


@pytest.mark.parametrize(("lower", "upper"), [("domain", "app"), ("store", "engine"), ("app", "web"), ("web", "attic")])
def test_the_drawing_refuses_an_arrow_that_does_not(lower: str, upper: str) -> None:
    assert len(structure.faults_of({(lower, upper): 1})) == 1


def test_the_example_inventory_is_one_that_a_user_may_copy() -> None:
    file = ROOT / "config" / "inventory.example.yaml"

    inventory = build_inventory(file.read_text(encoding="utf-8"), str(file), folder=file.parent)

    assert (len(inventory.nodes), list(inventory.controllers)) == (35, ["k8s-a"])
