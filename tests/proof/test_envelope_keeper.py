"""Short scripts by the thousand on a busy machine: each tells how it ended."""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.private import PrivateMounts
from service.executors.local import LocalExecutor
from tests.executors.envelope_place import Place, give_run, order
from tests.proof.counts import count

pytestmark = [pytest.mark.proof, pytest.mark.needs_root]

#: What it says comes in small pieces with zero bytes, so that many processes begin and end for it.
SCRIPT = "for number in 1 2 3; do printf '%s\\0words\\0' \"$number\"; done; exit 7"


def test_each_of_many_short_scripts_tells_how_it_ended(record_property: Callable[[str, object], None]) -> None:
    record_property("proof", "short scripts beside busy processes: none is gone without an exit code")
    wanted = count("short_scripts", 4000)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        with PrivateMounts() as mounts:
            give_run(mounts, size="512m")
            program, *rest = mounts.enter_prefix
            place = Place(mounts, LocalExecutor(prefix=[shutil.which(program) or program, *rest]))

            def ended(_number: int) -> tuple[str, int | None]:
                given = order(SCRIPT)
                report = place.start(given)
                shutil.rmtree(place.folder / given.attempt_id, ignore_errors=True)
                return report.state.value, report.exit_code

            with ThreadPoolExecutor(4) as threads:
                ends = Counter(threads.map(ended, range(wanted)))
            place.close()
    finally:
        for one in busy:
            one.kill()
            one.wait()

    record_property("count", f"{ends[('finished', 7)]} of {wanted}")
    assert ends == {("finished", 7): wanted}
