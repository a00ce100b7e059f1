"""docs/security.md names a test for each requirement and the README for each promise, and each of them is there."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, FormatChecker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from tools.sbom import document

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text() + (ROOT / "README.md").read_text()
ROWS = dict(re.findall(r"^\| ([SP]\d+) \|(.*)\|$", PAGE, re.MULTILINE))
NAMED = sorted(set(re.findall(r"(tests/[\w/]+\.py)::(?:\w+::)?(\w+)", PAGE)))


def test_every_requirement_and_promise_has_its_row_and_its_test() -> None:
    assert list(ROWS) == [f"S{number}" for number in range(1, 25)] + [f"P{number}" for number in range(1, 9)]
    without = [name for name, row in ROWS.items() if "::test_" not in row]
    assert without == [name for name, row in ROWS.items() if "does not apply" in row]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_is_there(file: str, name: str) -> None:
    assert re.search(rf"^ *def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock", "requirements-build.lock"])
def test_s20_every_package_of_the_locks_has_hashes(lock: str) -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / lock).read_text())

    packages = [entry for entry in entries if re.match(r"[A-Za-z0-9]", entry)]
    assert packages
    assert [entry.splitlines()[0] for entry in packages if "--hash=sha256:" not in entry] == []
    assert [entry.splitlines()[0] for entry in packages if not re.match(r"[\w.\[\],-]+==", entry)] == []


def test_s20_the_bill_of_materials_names_every_locked_package_with_its_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()

    made = document(lock, version="1.2.3")

    listed = {
        f"{one['name']}=={one['version']}": {each["content"] for each in one["hashes"]} for one in made["components"]
    }
    assert list(listed) == [
        re.sub(r"\[.*?\]", "", one) for one in re.findall(r"^([^\s#-]\S*==\S+) ", lock, re.MULTILINE)
    ]
    assert all(listed.values())
    assert set().union(*listed.values()) == set(re.findall(r"sha256:([0-9a-f]+)", lock))
    assert made["components"][0]["purl"] == "pkg:pypi/alembic@" + made["components"][0]["version"]
    assert (made["bomFormat"], made["specVersion"], made["metadata"]["component"]["version"]) == (
        "CycloneDX",
        "1.6",
        "1.2.3",
    )


def test_s20_the_bill_of_materials_is_valid_by_the_published_schema() -> None:
    made = document((ROOT / "requirements.lock").read_text(), version="1.2.3")
    wrong = {**made, "components": [{**made["components"][0], "type": "parcel"}]}

    assert [error.message for error in _schema().iter_errors(made)] == []
    assert [error.json_path for error in _schema().iter_errors(wrong)] == ["$.components[0].type"]


def _schema() -> Draft7Validator:
    """Return what https://cyclonedx.org/schema/bom-1.6.schema.json says, with what it refers to."""
    folder = files("cyclonedx.schema").joinpath("_res")
    schemas = [
        json.loads(folder.joinpath(f"{name}.SNAPSHOT.schema.json").read_text("utf-8"))
        for name in ("bom-1.6", "spdx", "jsf-0.82")
    ]
    registry: Registry[Any] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema, default_specification=DRAFT7)) for schema in schemas
    )
    return Draft7Validator(schemas[0], registry=registry, format_checker=FormatChecker())
