"""docs/runbooks.md tells the format as it is."""

import re
from pathlib import Path

import pytest

from service.app.lint import lint_files
from service.app.runbook_schema import Entry, LimitsEntry, ParamEntry, RetryEntry, RunbookFile, StepEntry
from service.executors.shellcheck import find_shellcheck

DOCS = Path("docs/runbooks.md").read_text()


def test_its_example_is_a_good_runbook_with_good_shell(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", DOCS, re.DOTALL)
    assert example is not None
    path = tmp_path / "restart-exporter.yaml"
    path.write_text(example[1])

    assert lint_files([path], shellcheck=find_shellcheck()) == []


@pytest.mark.parametrize("entry", [RunbookFile, StepEntry, ParamEntry, LimitsEntry, RetryEntry])
def test_it_names_every_key(entry: type[Entry]) -> None:
    keys = [field.alias or name for name, field in entry.model_fields.items()]

    assert [key for key in keys if f"`{key}`" not in DOCS] == []
