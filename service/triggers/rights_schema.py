"""The rights of policy.yaml: who may do what, with which runbooks, on the nodes of which pools."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from service.app.finding import Finding
from service.app.runbook_schema import Entry, refuse, shown
from service.app.runbook_yaml import Document
from service.app.strict_file import refuse_faults
from service.domain.person import Permission, Role, granted
from service.domain.reach import Reach, is_glob
from service.domain.rights import BY_ROLE_ALONE, EVERYBODY, GROUP, Right

#: What may be written under `may`, and what each word stands for. A role stands for all that it acts with.
WORDS: Final = {
    **{role.value: granted(role) - BY_ROLE_ALONE for role in Role if granted(role) - BY_ROLE_ALONE},
    **{one.value: frozenset({one}) for one in Permission if one not in BY_ROLE_ALONE},
    # Whoever answers for a second person may also confirm.
    Permission.APPROVE.value: frozenset({Permission.APPROVE, Permission.DECIDE}),
}
_BY_ROLE: Final = {one.value for one in BY_ROLE_ALONE} | {Role.VIEWER.value, Role.SOURCE.value}


def _word(value: object) -> str:
    if isinstance(value, str) and value in WORDS:
        return value
    if isinstance(value, str) and value in _BY_ROLE:
        raise refuse(f"is {value}, which the role of a token decides alone", "Leave it out.")
    raise refuse(f"is {shown(value)}", f"Write {', '.join(WORDS)}.")


def _who(value: object) -> str:
    good = isinstance(value, str) and bool(value.strip()) and value == value.strip() and "\n" not in value
    if isinstance(value, str) and good and value != GROUP and (value == EVERYBODY or EVERYBODY not in value):
        return value
    raise refuse(f"is {shown(value)}", f"Write the name of a person, `{GROUP}NAME`, or `{EVERYBODY}` for everybody.")


def _glob(value: object) -> str:
    if isinstance(value, str) and is_glob(value):
        return value
    raise refuse(f"is {shown(value)}", "Write a name; `*` in it is any text, `?` one character.")


_TEXT: Final = WithJsonSchema({"type": "string"})
Who = Annotated[str, BeforeValidator(_who), _TEXT]
Word = Annotated[str, BeforeValidator(_word), WithJsonSchema({"enum": sorted(WORDS)})]
Glob = Annotated[str, BeforeValidator(_glob), _TEXT]


class RightEntry(Entry):
    """Lets some persons do something."""

    who: list[Who] = Field(min_length=1, max_length=200, description="Persons, `group:NAME`, or `*` for everybody.")
    may: list[Word] = Field(min_length=1, max_length=20, description="What: permissions, or roles for all of theirs.")
    runbooks: list[Glob] = Field(default_factory=list, max_length=200, description="With these runbooks; without: all.")
    pools: list[Glob] = Field(
        default_factory=list, max_length=200, description="On nodes in these pools; without: all."
    )

    @model_validator(mode="after")
    def _each_once(self) -> "RightEntry":
        for names in (self.who, self.may, self.runbooks, self.pools):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise refuse(f"says {twice[0]} twice", "Say it once.")
        return self


def read_rights(entries: Sequence[RightEntry], document: Document, file: str) -> tuple[Right, ...]:
    """Return the rights, each with the line that it stands on; ConfigInvalid when one says what another says."""
    refuse_faults(_said_twice(entries, document, file))
    return tuple(
        Right(
            frozenset(entry.who),
            frozenset(permission for word in entry.may for permission in WORDS[word]),
            Reach(tuple(entry.runbooks), tuple(entry.pools)),
            f"{file}:{document.line(('rights', number))}",
        )
        for number, entry in enumerate(entries)
    )


def _said_twice(entries: Sequence[RightEntry], document: Document, file: str) -> Iterator[Finding]:
    seen: dict[object, int] = {}
    for number, entry in enumerate(entries):
        said = tuple(frozenset(names) for names in (entry.who, entry.may, entry.runbooks, entry.pools))
        if said in seen:
            line = document.line(("rights", seen[said]))
            reason = f"`rights.{number}` says what line {line} says."
            yield Finding(file, document.line(("rights", number)), reason, "Remove one of them.")
        seen.setdefault(said, number)
