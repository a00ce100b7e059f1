"""The JSON Schema that editors use agrees with the loader on every single value."""

import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from service.app.runbook_json_schema import json_schema
from service.app.runbook_yaml import Document, read_document
from tests.unit.runbook_text import HEAD, STEP, WHOLE, findings


def accepts(text: str) -> bool:
    document = read_document(text, "cure.yaml")
    assert isinstance(document, Document)
    return jsonschema.Draft202012Validator(json_schema()).is_valid(document.value)


def test_it_is_a_schema_and_keeps_no_trace_of_the_program() -> None:
    schema = json_schema()

    jsonschema.Draft202012Validator.check_schema(schema)

    assert '"null"' not in str(schema)
    assert "PT" not in str(schema)
    assert json_schema() == copy.deepcopy(schema)


@pytest.mark.parametrize("text", [WHOLE, HEAD + STEP, f"{HEAD}escalate_to: other\n{STEP}"])
def test_what_the_loader_takes_the_schema_takes(text: str) -> None:
    assert (findings(text), accepts(text)) == ([], True)


@pytest.mark.parametrize("path", sorted(Path("runbooks").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_schema_takes_each_shipped_runbook(path: Path) -> None:
    assert accepts(path.read_text())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schema: 1", "schema: 2"),
        ("name: cure", "name: Cure"),
        ("title: A cure", "title: 1.10"),
        ("owner: gpu-oncall", "on: x"),
        ("type: integer", "type: float"),
        ("min: 1", "least: 1"),
        ("concurrent_nodes: 10%", "concurrent_nodes: 0%"),
        ("cooldown: 30m", "cooldown: 1:30"),
        ("approval: second_person", "approval: NO"),
        ("waivable: false", "waivable: off"),
        ("timeout: 90s", "timeout: 90"),
        ("attempts: 3", "attempts: 1"),
        ("runbook: reboot}", "runbook: reboot, if: x}"),
        ("on_failure: continue", "on_failure: go"),
        ("    timeout: 90s\n", ""),
    ],
)
def test_what_the_loader_refuses_in_one_value_the_schema_refuses(old: str, new: str) -> None:
    assert old in WHOLE

    text = WHOLE.replace(old, new)

    assert (findings(text) != [], accepts(text)) == (True, False)


def test_every_key_has_words_for_the_editor() -> None:
    schema: dict[str, Any] = json_schema()
    entries = {"Runbook": schema, **schema["$defs"]}

    silent = [
        f"{name}.{key}"
        for name, entry in entries.items()
        for key, value in entry.get("properties", {}).items()
        if not value.get("description")
    ]

    assert silent == []
