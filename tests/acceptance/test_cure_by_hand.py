"""The incident while the service is down: exported, cured at a terminal, and brought into the record afterwards."""

import json
import os
import re
from pathlib import Path

import pytest

from lab.private import PrivateMounts
from lab.stuck import MountOptions, StuckConnection
from service.domain.person import Role
from tests.cli.installation import Installation, Someone
from tests.support.by_hand import BEGIN, YES, ByHand
from tests.support.world import RUNBOOKS

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root
#: A type of our own: what other tests have mounted at the same time is not looked at.
OWN = f"fuse.hand{os.getpid()}"
PARAMS = ("--node", "n00", "--param", "hold_seconds=3", "--param", f"fstype={OWN}")


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    """Give an installation with the shipped runbooks."""
    built = Installation(tmp_path / "place")
    built.environment["UNSTICK_RUNBOOKS"] = str(RUNBOOKS)
    return built


def test_the_incident_is_cured_while_the_service_is_down_and_stands_in_its_record(
    place: Installation, private_mounts: PrivateMounts, tmp_path: Path
) -> None:
    ann = place.token("ann", Role.OPERATOR)
    script = tmp_path / "cure.sh"
    exported = place("export", "abort-stuck-fuse", *PARAMS, "--output", str(script))
    assert exported.returncode == 0, exported.stderr
    plan = json.loads(place("plan", "abort-stuck-fuse", *PARAMS, "--json").stdout)
    by_hand = ByHand(script, tmp_path, enter=private_mounts.enter_prefix)

    with StuckConnection(private_mounts, MountOptions(direct=True, fstype=OWN)) as stuck:
        code, seen = by_hand.play(*BEGIN, YES)
        assert code == 0, seen
        assert stuck.freed()

    with place.serving() as serving:
        someone = Someone(place, serving.url, ann)
        imported = someone("import", str(by_hand.journal), "--reason", "the database's disk was full")
        again = someone("import", str(by_hand.journal))
        found = re.search(r"run (\S+) imported", imported.stdout)
        assert found is not None, imported.stderr
        run = someone.run(found[1])
        verified = place("audit", "verify")
        timeline = someone("audit", "timeline", "--run", run["id"])
        shown = someone("show", run["id"])

    assert "played by hand: succeeded: cured" in imported.stdout
    assert (run["digest"], run["trigger"]["kind"], run["state"]) == (plan["digest"], "by_hand", "succeeded")
    assert [gate["state"] for gate in run["gates"]] == ["overridden"]
    assert {step["id"]: step["outcome"] for step in run["nodes"][0]["steps"]} == {
        "evidence": "ok",
        "abort-dead": "changed",
        "abort-hung": "ok",
        "unmount": "skipped",
        "well": "ok",
    }
    assert again.returncode == 2
    assert "in the record already" in again.stderr
    assert verified.returncode == 0, verified.stderr
    assert "for ann (typed by hand)" in timeline.stdout, timeline.stderr
    assert "played by hand from an exported script" in shown.stdout, shown.stderr
