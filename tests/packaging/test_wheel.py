"""What an installed wheel carries besides Python: the runbooks and migrations, byte for byte, and the envelope."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CARRIED = {"runbooks": "service/_runbooks", "migrations": "service/_migrations", "service": "service"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, without what earlier builds left."""
    folder = tmp_path_factory.mktemp("source")
    for name in CARRIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(target), str(source)], check=True, capture_output=True)
    with zipfile.ZipFile(next(target.iterdir())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("folder", list(CARRIED))
def test_the_wheel_carries_every_file_as_it_is(source: Path, wheel: dict[str, bytes], folder: str) -> None:
    files = [file for file in (source / folder).rglob("*") if file.is_file()]

    expected = {f"{CARRIED[folder]}/{file.relative_to(source / folder)}": file.read_bytes() for file in files}

    assert {name: wheel.get(name) for name in expected} == expected


def test_an_installed_wheel_finds_what_it_carries(wheel: dict[str, bytes], tmp_path: Path) -> None:
    for name, content in wheel.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    asked = "from service.resources import *; print(runbooks_folder().joinpath('abort-stuck-fuse.yaml').is_file())"

    done = subprocess.run([sys.executable, "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout == "True\n"
