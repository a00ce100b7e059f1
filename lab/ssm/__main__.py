"""`python -m lab.ssm serve --node NAME=INSTANCE ...`: serves nodes that `python -m lab.nodes up` has booted."""

import argparse
import signal
import sys
import threading
from collections.abc import Sequence

from lab.ssm.machines import standing
from lab.ssm.server import SsmServer


def main(given: Sequence[str] | None = None) -> int:
    """Serve until interrupted; print what a shell needs to talk to it."""
    parser = argparse.ArgumentParser(prog="python -m lab.ssm", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve until Ctrl-C, and print the endpoint")
    serve.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NAME=INSTANCE",
        help="a node, or its folder, and its i- or mi- id",
    )
    serve.add_argument("--pace", type=float, default=1.0, help="seconds of AWS's time in one second here")
    chosen = parser.parse_args(given)
    try:
        instances = [standing(*each.split("=", 1)) for each in chosen.node]
    except (LookupError, TypeError) as wrong:
        parser.error(str(wrong) if isinstance(wrong, LookupError) else "--node takes NAME=INSTANCE")
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    with SsmServer(pace=chosen.pace) as server:
        for instance in instances:
            server.add(instance)
        for name, value in server.environment().items():
            print(f"export {name}={value}")
        for instance in instances:
            print(f"# {instance.id} is {instance.name}")
        print("# Ctrl-C ends it", flush=True)
        asked.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
