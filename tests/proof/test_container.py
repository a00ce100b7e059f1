"""The image and the compose file, built and started by a real engine from stand-ins of the two base images."""

import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.proof.engine import ROOT, Engine, missing_tools

pytestmark = [pytest.mark.proof, pytest.mark.needs_root]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    if os.geteuid() != 0 or missing_tools():
        pytest.skip(f"needs root and: .ci/apt .ci/apt-proof.txt (missing: {', '.join(missing_tools()) or 'root'})")
    with Engine(ROOT / ".cache" / "podman", tmp_path_factory.mktemp("engine")) as engine:
        engine.build("localhost/unstick:latest")
        yield engine


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder as a user would have it: the compose file, a configuration, the runbooks, a password."""
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    shutil.copytree(ROOT / "runbooks", tmp_path / "runbooks")
    (tmp_path / "config").mkdir()
    for name in ("inventory", "rules"):
        shutil.copy(ROOT / "config" / f"{name}.example.yaml", tmp_path / "config" / f"{name}.yaml")
    (tmp_path / ".env").write_text(f"POSTGRES_PASSWORD={secrets.token_hex(16)}\n")
    return tmp_path


def test_the_image_runs_as_nobody_in_particular(engine: Engine, record_property: Callable[[str, object], None]) -> None:
    record_property("proof", "the image builds from the lock and runs without root")

    image = json.loads(engine.podman("image", "inspect", "unstick"))[0]["Config"]
    user = engine.podman("run", "--rm", "--network=none", "--entrypoint=id", "unstick", "--user")

    assert (image["User"], image["Entrypoint"], image["Cmd"]) == ("10001:10001", ["unstick"], ["serve"])
    assert user.strip() == "10001"


#: Nobody listens there, so kubectl says where it has looked.
INVENTORY = """\
controllers: {k8s: {executor: local, view: private}}
node_sources: {cluster: {kind: kubernetes, controller: k8s, node: {executor: ssh, key_file: id}}}
"""


def test_a_controller_in_the_container_runs_kubectl_without_root(
    engine: Engine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("proof", "a controller in the container runs kubectl, without root and on a read-only root")
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    tmp_path.chmod(0o755)
    locked = ["--rm", "--network=none", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL"]
    there = ["--pid=host", "--volume=unstick-controller:/var/tmp", f"--volume={tmp_path}:/etc/unstick:ro"]
    doctor = ["--entrypoint=sh", "unstick", "-c", "unstick doctor || true"]

    try:
        program = engine.podman("run", *locked, "--entrypoint=kubectl", "unstick", "version", "--client", "--short")
        looked = engine.podman("run", *locked, *there, *doctor)
        elsewhere = engine.podman("run", *locked, *there[1:], *doctor)
    finally:
        engine.podman("volume", "rm", "--force", "unstick-controller")

    assert program.startswith("Client Version: v1.")
    assert "on the controller k8s failed (exit 1): The connection to the server localhost:8080 was refused" in looked
    assert "Nothing was learned on the controller k8s" in elsewhere


def test_the_compose_file_starts_a_service_that_is_ready(
    engine: Engine, project: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("proof", "docker-compose starts database, migration and service; a token reads the runbooks")

    try:
        engine.inside(["docker-compose", "up", "--detach", "--no-build"], folder=project)
        _wait_until_ready(engine)
        create = ["exec", "-T", "unstick", "unstick", "token", "create", "--name", "viewer", "--role", "viewer"]
        token = engine.inside(["docker-compose", *create], folder=project).strip()
        listed = json.loads(engine.fetch("http://127.0.0.1:8000/api/v1/runbooks", token=token))
    except subprocess.CalledProcessError as error:
        error.add_note(engine.inside(["docker-compose", "logs", "--no-color", "--tail=40"], folder=project))
        raise
    finally:
        engine.inside(["docker-compose", "down", "--volumes"], folder=project)

    assert "abort-stuck-fuse" in json.dumps(listed["items"])


def test_the_compose_file_has_no_password_of_its_own(project: Path) -> None:
    (project / ".env").unlink()

    done = subprocess.run(["docker-compose", "config", "-q"], cwd=project, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "write it into .env" in done.stderr


def _wait_until_ready(engine: Engine) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            engine.fetch("http://127.0.0.1:8000/readyz")
        except subprocess.CalledProcessError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return
