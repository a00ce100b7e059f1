from collections.abc import Iterator
from pathlib import Path

import pytest

from service.executors.ssh.executor import SshExecutor
from tests.executors.ssh.sshd import Sshd
from tests.executors.ssh.support import executor


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Give an sshd with the usual settings that no test changes."""
    with Sshd(tmp_path_factory.mktemp("sshd"), kinds=("ed25519", "ecdsa", "rsa")) as machine:
        yield machine


@pytest.fixture
def own_sshd(tmp_path: Path) -> Iterator[Sshd]:
    """Give an sshd of the test's own."""
    with Sshd(tmp_path / "sshd") as machine:
        yield machine


@pytest.fixture
def ssh() -> Iterator[SshExecutor]:
    """Give an executor, closed afterwards."""
    made = executor()
    yield made
    made.close()
