"""Reads a small reviewed file strictly into a model: each fault with its line, and all of them at once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.app.entry_faults import empty_values
from service.app.finding import Finding
from service.app.runbook_schema import Entry
from service.app.runbook_yaml import Bounds, Document, Where, decode, read_document
from service.domain.errors import ConfigInvalid

E = TypeVar("E", bound=Entry)
#: Says of one error of pydantic where it stands, what is wrong and how to mend it.
Explain = Callable[[ErrorDetails, Document, str], Finding]


def read_strictly(path: Path, model: type[E], *, bounds: Bounds, begin: str, explain: Explain) -> tuple[E, Document]:
    """Return the values of a file in their types, and the document that knows their lines.

    `begin` is the key with which such a file begins. Raises ConfigInvalid, which names every fault, and OSError when
    the file cannot be read.
    """
    file = str(path)
    text = decode(path.read_bytes(), file, bounds=bounds)
    document = text if isinstance(text, Finding) else read_document(text, file, bounds=bounds)
    if isinstance(document, Finding):
        raise ConfigInvalid(str(document))
    refuse_faults(_empty(document, file, begin=begin))
    try:
        return model.model_validate(document.value), document
    except ValidationError as error:
        found = {explain(details, document, file) for details in error.errors()}
        raise ConfigInvalid("\n".join(map(str, sorted(found)))) from error


def refuse_faults(findings: Iterator[Finding]) -> None:
    """Raise ConfigInvalid when there is anything to be said, in the order of the lines."""
    found = sorted(findings)
    if found:
        raise ConfigInvalid("\n".join(map(str, found)))


def named(where: Where) -> str:
    """Return a place of a file as a person would look for it."""
    return f"`{'.'.join(map(str, where))}`" if where else "The file"


def _empty(document: Document, file: str, *, begin: str) -> Iterator[Finding]:
    if not isinstance(document.value, dict):
        yield Finding(file, 1, "The file is not a mapping of keys to values.", f"Begin with `{begin}:`.")
        return
    for where in empty_values(document.value, ()):
        yield Finding(file, document.line(where), f"{named(where)} is empty.", "Give it a value, or remove the key.")
