"""`unstick demo`: watch the service cure a node that is really stuck. The means for it stand in the source alone."""

import os
import sys
from typing import Final

import typer

from service import resources
from service.domain.errors import NotFound

_SOURCE: Final = "Get the source of unstick, and type there: make demo"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo() -> None:
    """Make a node really stuck, and cure it before your eyes.

    YES=1 asks nothing, KEEP=1 leaves it up, TIER=1|2|3 or EXECUTOR=ssh|ssm choose a way.
    """
    checkout = resources.runbooks_folder().parent
    if not (checkout / "lab" / "demo.py").is_file():
        raise NotFound("This unstick was installed without its lab, which the demo needs.", _SOURCE)
    os.chdir(checkout)
    # In place of this process, so that a signal meets the demo and nobody else.
    os.execv(sys.executable, [sys.executable, "-m", "lab.demo"])  # noqa: S606 - no shell is wanted
