"""shellcheck has nothing to say of any script that a shipped runbook would send."""

import shutil
from pathlib import Path

import pytest

from service.app.lint import lint_files
from service.executors.shellcheck import find_shellcheck

SHIPPED = sorted((Path(__file__).parents[2] / "runbooks").glob("*.yaml"))


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("runbook", SHIPPED, ids=lambda path: path.stem)
def test_every_script_of_a_shipped_runbook_is_clean_as_it_would_be_sent(runbook: Path) -> None:
    assert lint_files([runbook], shellcheck=find_shellcheck()) == []
