"""`unstick sweeps` and `unstick fleet` ask a running service, whose engine plays the sweeps."""

from pathlib import Path

from service.client import Client
from service.domain.person import Role
from tests.cli.installation import Installation, Someone, eventually

NODES = """\
nodes:
  n00: {executor: local, view: private, pools: [small]}
  n01: {executor: local, view: private, pools: [small]}
"""
RULES = """\
rules:
  - {name: swept, sources: [sweep], when: alert.labels.node == "n00", runbook: confirm, node: alert.labels.node}
sweeps:
  - {name: yearly, runbook: confirm, pool: small, cron: "0 0 1 1 *", jitter: 1h}
"""


def test_a_sweep_is_played_listed_and_promoted_to_a_gate(tmp_path: Path) -> None:
    place = Installation(tmp_path / "place")
    (place.folder / "config" / "inventory.yaml").write_text(NODES)
    (place.folder / "config" / "rules.yaml").write_text(RULES)
    with place.serving() as serving, Client(serving.url, place.token("ann", Role.OPERATOR)) as asked:
        ann = Someone(place, serving.url, place.token("ann-2", Role.OPERATOR, person="ann"))
        eventually(lambda: asked.get("/sweeps")["items"][0]["next_at"] is not None)
        before = ann("fleet", "--needs")
        started = ann("sweeps", "run", "yearly", "--reason", "before the year")
        eventually(lambda: {one["finding"] for one in asked.items("/fleet")} == {"needs"})
        listed, same, fleet = ann("sweeps"), ann("sweeps", "list"), ann("fleet", "--pool", "small")
        eventually(lambda: ann.latest("n00").get("state") == "waiting")
        promoted = ann.latest("n00")
        found = asked.get("/alerts", node="n00")["items"][0]

    assert before.stdout.splitlines()[-1] == "2 never looked at"
    assert started.stdout.splitlines()[0].startswith("run ")
    assert listed.stdout.splitlines()[1].split()[:3] == ["yearly", "2", "0"]
    assert same.stdout.splitlines()[1].split()[:3] == ["yearly", "2", "0"]
    assert fleet.stdout.splitlines()[:2] == ["sweep yearly (confirm)", "  1 touch: Act on a thing"]
    assert [line.split()[:2] for line in fleet.stdout.splitlines()[3:5]] == [["n00", "NEEDS"], ["n01", "NEEDS"]]
    assert (promoted["runbook"], promoted["requested_by"], promoted["dry_run"]) == ("confirm", "ann", False)
    assert (found["source"], found["verdict"], found["rule"]) == ("sweep", "ran", "swept")
