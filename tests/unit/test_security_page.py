"""docs/security.md names a test for each requirement and the README for each promise, and each of them is there."""

import re
from pathlib import Path

import pytest

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
