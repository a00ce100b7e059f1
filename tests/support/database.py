"""A SQLite database that is migrated already, since to make one costs half a second each time."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from service.store.migrate import upgrade

_SQLITE = "sqlite:///"


@cache
def migrated() -> bytes:
    """Return the file that `unstick migrate` makes."""
    with TemporaryDirectory() as folder:
        database = Path(folder) / "unstick.db"
        upgrade(f"{_SQLITE}{database}")
        return database.read_bytes()


def prepare(url: str) -> str:
    """Put a migrated file where the URL names a SQLite database that is not there yet, and return the URL."""
    file = Path(url.removeprefix(_SQLITE))
    if url.startswith(_SQLITE) and not file.exists():
        file.write_bytes(migrated())
    return url
