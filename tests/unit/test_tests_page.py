"""tests/README.md names folders and tests that are there."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS / "README.md").read_text()


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`([a-z_/]+\.py)::(\w+)`", PAGE))

    assert len(named) > 50
    assert {(file, test) for file, test in named if test not in functions_of(TESTS / file)} == set()


def test_every_folder_of_tests_has_its_line() -> None:
    folders = {folder.name for folder in TESTS.iterdir() if folder.is_dir() and folder.name != "__pycache__"}

    assert set(re.findall(r"`([a-z]+)/`", PAGE.partition("# Situation and test")[0])) == folders
