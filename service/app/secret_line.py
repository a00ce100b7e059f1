"""Addresses and secrets that stand in files of their own, one line each."""

import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from service.domain.errors import ConfigInvalid
from service.domain.known_secrets import KNOWN

_LONGEST: Final = 4096


def read_text(path: str | Path, *, holds: str = "its one line") -> str:
    """Return the one line of a file without the white space around it, also an empty one; ConfigInvalid otherwise.

    What is in the file is never shown. `holds` says what should be.
    """
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_LONGEST + 1)
        text = data.decode("utf-8").strip()
    except FileNotFoundError as error:
        way_out = f"Write it: install -D -m 0600 /dev/null {path}, then {holds} with an editor."
        raise ConfigInvalid(f"There is no file {path}.", way_out) from error
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error.strerror}.", f"Look: ls -l {path}") from error
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"What is in {path} is not text.", "Write one line of text.") from error
    if len(data) > _LONGEST or "\n" in text:
        raise ConfigInvalid(f"{path} holds more than one line.", "Write one; another has its own file.")
    return text


def read_line(path: str) -> str:
    """Return the one word of a file, such as an address; ConfigInvalid as `read_text`, and when there is no or another.

    From then on no text of ours shows it.
    """
    text = read_text(path)
    if not text:
        raise ConfigInvalid(f"{path} is empty.", "Write one line of text.")
    if len(text.split()) > 1:
        raise ConfigInvalid(f"{path} holds more than one line or word.", "Write one; another has its own file.")
    KNOWN.learn_address(text)
    return text


def learn_lines(*paths: str) -> None:
    """Read files that may hold a secret, so that nothing shows it; whoever needs one that is not good says so."""
    for path in filter(None, paths):
        with suppress(ConfigInvalid):
            read_line(path)


def read_secret_line(path: str) -> str:
    """Return the same of a file that nobody but its owner may read; ConfigInvalid when others may."""
    text = read_line(path)
    if stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
        raise ConfigInvalid(f"Others may read {path}, which is a secret.", f"chmod 0600 {path}")
    return text
