"""What a mutant is: one or a few exact replacements, and the tests that must notice them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One exact replacement in one file."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A defect, and the tests that must notice it."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


class MutantError(Exception):
    """The mutant proves nothing; the text says why."""


def changed(text: str, edit: Edit) -> str:
    """Return a text with an edit made; MutantError where it does not match exactly once."""
    found = text.count(edit.old)
    if found != 1:
        raise MutantError(f"{edit.file} has {found} places that read {edit.old!r}, not one.")
    return text.replace(edit.old, edit.new)


def one(name: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    """Return a mutant of one edit."""
    return Mutant(name, (Edit(file, old, new),), tests)
