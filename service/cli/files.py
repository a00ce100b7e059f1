"""`unstick lint` and `unstick schema`: on files alone."""

from pathlib import Path
from typing import Annotated

import typer

from service.app.finding import Severity
from service.app.lint import lint_files, runbook_files
from service.app.runbook_json_schema import json_schema
from service.cli.printing import print_json, say, tell
from service.domain.errors import InvalidInput
from service.executors.shellcheck import find_shellcheck
from service.notify.notify_schema import notify_json_schema
from service.settings import load_settings
from service.triggers.rules_schema import rules_json_schema


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(lint)
    app.command()(schema)


def lint(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", show_default=False, help="Runbooks; all when none is given."),
    ] = None,
    shell: Annotated[
        bool, typer.Option("--shell/--no-shell", help="Let shellcheck look at the scripts: some seconds each.")
    ] = True,
) -> None:
    """Say what is wrong in runbook files, with line and way to mend it. Exits 1 when something is."""
    paths = files or runbook_files(load_settings().runbooks_folder)
    for path in paths:
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder.", f"Name files: unstick lint {path}/*.yaml")
    shellcheck = find_shellcheck() if shell else None
    findings = lint_files(paths, shellcheck=shellcheck)
    for finding in findings:
        say(str(finding))
    if shell and shellcheck is None:
        tell("shellcheck is not installed: the scripts themselves were not looked at.")
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    tell(f"{len(paths)} {'file' if len(paths) == 1 else 'files'}, {errors} errors, {len(findings) - errors} warnings")
    raise typer.Exit(1 if errors else 0)


def schema(
    rules: Annotated[bool, typer.Option("--rules", help="That of rules.yaml.")] = False,
    notify: Annotated[bool, typer.Option("--notify", help="That of notify.yaml.")] = False,
) -> None:
    """Print the JSON Schema of runbooks, of rules or of who is told what, for editors."""
    if rules and notify:
        raise InvalidInput("--rules and --notify are two schemas.", "Ask for one.")
    print_json(rules_json_schema() if rules else notify_json_schema() if notify else json_schema())
