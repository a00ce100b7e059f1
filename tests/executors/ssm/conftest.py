from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from lab.needs import need_fuse
from lab.private import PrivateMounts
from lab.ssm import SsmServer
from service.executors.ssm.executor import SsmExecutor
from tests.executors.envelope_place import Place, give_run
from tests.executors.ssm.support import TEMPO, Region, instances
from tests.support.prompt_aws import TIMING


@pytest.fixture(scope="module")
def whole_region() -> Iterator[Region]:
    """Give a stand-in with sixty instances that a module shares."""
    need_fuse()
    with ExitStack() as stack:
        mounts = stack.enter_context(PrivateMounts())
        give_run(mounts)
        server = stack.enter_context(SsmServer(timing=TIMING))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in server.environment().items():
            patch.setenv(name, value)
        instances(server, mounts, count=60)
        region = Region(server, Place(mounts, None), SsmExecutor(lambda: datetime.now(UTC), tempo=TEMPO))  # type: ignore[arg-type]
        stack.callback(region.close)
        yield region


@pytest.fixture
def region(whole_region: Region) -> Iterator[Region]:
    """Give it with nothing wrong before and after."""
    yield whole_region
    whole_region.server.faults.clear()
    whole_region.again()
