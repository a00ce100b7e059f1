"""`python -m bench`: measure, and print the figures as they stand in docs/performance.md."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench import alerts, ansible, calls, fleet, overhead, place
from bench.measure import machine

PARTS = ("overhead", "fleet", "calls", "alerts")


def main() -> int:
    """Read the arguments, go into a place of our own, measure there; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed, as ratios measured in one run.")
    parser.add_argument("part", nargs="*", help="overhead, fleet, calls, alerts (all when none is named)")
    parser.add_argument("--rounds", type=int, default=100, help="rounds of five scripts for `overhead`")
    parser.add_argument("--addresses", type=int, default=200, help="nodes for `fleet`, at most 250")
    parser.add_argument("--turns", type=int, default=1, help="how often Ansible plays in `fleet`")
    parser.add_argument("--instances", type=int, default=50, help="nodes for `calls`, at most 500")
    parser.add_argument("--alerted", type=int, default=30, help="nodes for `alerts`, at most 250")
    parser.add_argument("--alone", action="store_true", help="`fleet` without Ansible")
    given = parser.parse_args()
    parts = given.part or list(PARTS)
    if not set(parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    folder = place.folder()
    if folder is None:
        return place.enter(sys.argv[1:])
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}.", flush=True)
    if "overhead" in parts:
        print("\n## Overhead per script, in milliseconds\n", flush=True)
        print(overhead.report(overhead.measure(folder / "overhead", given.rounds)), flush=True)
    if "fleet" in parts:
        print("\n## Five scripts on a fleet, in seconds\n", flush=True)
        programs = None if given.alone else ansible.install(Path(folder, "venv"))
        print(fleet.report(_race(folder, programs, given)), flush=True)
    if "calls" in parts:
        print("\n## API calls of AWS for scripts that only read\n", flush=True)
        print(calls.report(calls.compare(given.instances)), flush=True)
    if "alerts" in parts:
        print("\n## Alerts, in milliseconds\n", flush=True)
        print(alerts.report(alerts.measure(folder / "alerts", given.alerted)), flush=True)
    return 0


def _race(folder: Path, programs: Path | None, given: argparse.Namespace) -> fleet.Raced:
    return fleet.race(folder / "fleet", programs, addresses=given.addresses, turns=given.turns)


if __name__ == "__main__":
    sys.exit(main())
