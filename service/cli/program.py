"""Runs the command that was typed; only its modules are imported."""

from importlib import import_module
from typing import Final

import typer

from service.cli.printing import tell
from service.domain.errors import UnstickError

#: Which module adds which commands; the order is that of `unstick --help`.
COMMANDS: Final = {
    "serving": ("serve", "migrate", "doctor"),
    "demo": ("demo",),
    "files": ("lint", "schema"),
    "planning": ("plan",),
    "by_hand": ("export", "import"),
    "requesting": ("run", "retry", "cancel"),
    "looking": ("runs", "show"),
    "answering": ("approve", "deny", "resolve", "hold", "release"),
    "overriding": ("override",),
    "pausing": ("pause", "resume", "breaker"),
    "nodes": ("nodes",),
    "rules": ("rules",),
    "alerts": ("alerts",),
    "sweeps": ("sweeps", "fleet"),
    "notices": ("notices",),
    "audit": ("audit",),
    "token": ("token",),
    "policy": ("policy",),
    "sessions": ("sessions",),
}


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; 2 for what was refused or cannot be understood."""
    try:
        _app(arguments)(args=[_with_value(argument) for argument in arguments], prog_name="unstick")
    except UnstickError as error:
        tell(error.reason)
        if error.way_out:
            tell(error.way_out)
        return 2
    return 0


def _app(arguments: list[str]) -> typer.Typer:
    app = typer.Typer(
        help="Cure stuck GPU nodes: reviewed runbooks, a true dry run, gates, proof of the cure, and a record.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def unstick() -> None:
        """Cure stuck GPU nodes: reviewed runbooks, a true dry run, gates, proof of the cure, and a record."""

    word = arguments[0] if arguments else ""
    named = [module for module, words in COMMANDS.items() if word in words]
    for module in named or COMMANDS:
        import_module(f"service.cli.{module}").add_to(app)
    return app


def _with_value(argument: str) -> str:
    """Give `--wait` its value: the parser knows no option whose value may be left out."""
    return "--wait=gate" if argument == "--wait" else argument
