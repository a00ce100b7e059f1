"""Where the shipped files lie: inside the package when installed from a wheel, at the top of a checkout otherwise."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def runbooks_folder() -> Path:
    """Return the folder of the shipped runbooks; it need not exist in a checkout that has removed it."""
    return _shipped("runbooks")


def migrations_folder() -> Path:
    """Return the folder with the database migrations (alembic's script location)."""
    return _shipped("migrations")


def _shipped(name: str) -> Path:
    installed = _PACKAGE / f"_{name}"
    return installed if installed.is_dir() else _PACKAGE.parent / name
