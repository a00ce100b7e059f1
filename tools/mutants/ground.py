"""A process that has loaded what tests need from elsewhere, and plays each run of tests in a fork of itself.

To load it anew for each mutant costs more than most tests. Nothing of `service` is loaded before the fork, so each run
sees the files as they are then. It reads lines of JSON: the arguments of pytest, and the file for what it says.
"""

import importlib
import json
import os
import resource
import signal
import sys
from contextlib import suppress

#: How long a run of tests may last, and how much memory each process of it may have.
MOST_SECONDS = 900
MOST_BYTES = 4 * 1024**3
#: What the program and its tests import from elsewhere; one that is not there is not asked for by any test either.
LOADED = (
    "pytest",
    "_pytest.assertion.rewrite",
    "hypothesis",
    "fastapi.routing",
    "fastapi.openapi.utils",
    "uvicorn.protocols.http.h11_impl",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.dialects.postgresql.psycopg",
    "alembic.command",
    "pydantic_settings",
    "celpy",
    "structlog",
    "httpx",
    "typer",
    "rich.table",
    "jinja2",
    "yaml",
    "ruamel.yaml",
    "prometheus_client",
    "cryptography.x509.verification",
    "joserfc.jwt",
    "authlib.oidc.core",
    "croniter",
    "re2",
)


def main() -> None:
    """Load, say so, and play until the input ends; each answer is pytest's exit code on a line."""
    for name in LOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    print("ready", flush=True)
    for line in sys.stdin:
        arguments, said = json.loads(line)
        child = os.fork()
        if child == 0:
            _play(arguments, said)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _play(arguments: list[str], said: str) -> None:
    # A mutant may have no end: of what it waits for, or of what it takes.
    signal.alarm(MOST_SECONDS)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in ((0, nothing), (1, output), (2, output)):
        os.dup2(descriptor, number)
    code: int = importlib.import_module("pytest").main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
