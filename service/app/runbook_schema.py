"""The keys of a runbook file and what each may hold, as pydantic models.

The models know one value at a time; what several values say together is in `runbook_rules.py`.
The JSON Schema for editors is made from them (`runbook_json_schema.py`).
"""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from service.domain.runbook import ApprovalKind, Count, OnFailure, ParamType, Where
from service.domain.script import Reads

_UNITS = {"s": 1, "m": 60, "h": 3600}
_LONGEST = timedelta(days=7)
_DURATION = r"^[0-9]{1,6}[smh]$"
LIBRARY_FILE = r"^lib/[A-Za-z0-9][A-Za-z0-9._-]*\.sh$"
_COUNT = r"^([1-9][0-9]?|100)%$"

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=63)]
Word = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=63)]
Line = Annotated[str, StringConstraints(pattern=r"^[^\n]*\S[^\n]*$", max_length=200)]
Script = Annotated[str, StringConstraints(pattern=r"\S")]
Library = Annotated[str, StringConstraints(pattern=LIBRARY_FILE)]


def refuse(reason: str, way_out: str) -> PydanticCustomError:
    """Return what a validator raises; `reason` goes on where the key left off, as in `is empty`."""
    return PydanticCustomError("unstick", "{reason}", {"reason": reason, "way_out": way_out})


def _duration(value: object) -> timedelta:
    if not isinstance(value, str) or not re.fullmatch(_DURATION, value):
        raise refuse(f"is {shown(value)}, which is not a duration", "Write 30s, 5m or 2h.")
    duration = timedelta(seconds=int(value[:-1]) * _UNITS[value[-1]])
    if duration > _LONGEST:
        raise refuse(f"is {value}, which is longer than 168h", "Write a shorter duration.")
    return duration


def _some_time(value: timedelta) -> timedelta:
    if not value:
        raise refuse("is no time at all", "Write 30s, 5m or 2h.")
    return value


def _count(value: object) -> Count:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 100_000:
        return Count(value)
    if isinstance(value, str) and re.fullmatch(_COUNT, value):
        return Count(int(value[:-1]), percent=True)
    raise refuse(f"is {shown(value)}", "Write a number of nodes such as 4, or a percentage of the pool such as 10%.")


def _param_value(value: object) -> object:
    if isinstance(value, str | int):
        return value
    raise refuse(f"is {shown(value)}", "Write text (in quotes), a whole number, true or false.")


def _prelude(value: object) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        for item in value:
            if not re.fullmatch(LIBRARY_FILE, item):
                raise refuse(f"names {shown(item)}", "Name files such as lib/fuse.sh, beside the runbooks.")
        return tuple(value)
    raise refuse(f"is {shown(value)}", "Write shell after `|`, or a list of files such as [lib/fuse.sh].")


def _goals(value: object) -> object:
    return [{"runbook": value}] if isinstance(value, str) else value


def shown(value: object) -> str:
    """Return a value as a person would find it in the file, cut when it is long."""
    match value:
        case None:
            return "empty"
        case bool():
            return "true" if value else "false"
        case str():
            return ascii(value if len(value) <= 60 else value[:57] + "...")
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"the number {value}"


_DURATION_SCHEMA = WithJsonSchema({"type": "string", "pattern": _DURATION, "examples": ["30s", "5m", "2h"]})
_COUNT_SCHEMA = WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _COUNT}]})
_VALUE_SCHEMA = WithJsonSchema({"type": ["string", "integer", "boolean"]})
_PRELUDE_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": LIBRARY_FILE}},
        ]
    }
)

Duration = Annotated[timedelta, BeforeValidator(_duration), _DURATION_SCHEMA]
SomeTime = Annotated[timedelta, BeforeValidator(lambda value: _some_time(_duration(value))), _DURATION_SCHEMA]
NodeCount = Annotated[Count, BeforeValidator(_count), _COUNT_SCHEMA]
Value = Annotated[Any, BeforeValidator(_param_value), _VALUE_SCHEMA]
Prelude = Annotated[Any, BeforeValidator(_prelude), _PRELUDE_SCHEMA]


class Entry(BaseModel):
    """A mapping of the file; a key that is not named here is refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ParamEntry(Entry):
    """A parameter: its type, what it is for, and what binds it."""

    type: ParamType = Field(strict=False, description="string, integer or boolean.")
    description: Line = Field(description="What the value does, in one line.")
    default: Value = Field(default=None, description="The value when none is given; without it a value must be given.")
    pattern: str | None = Field(
        default=None, max_length=500, description="A string must match this whole regular expression (RE2's)."
    )
    max_length: int | None = Field(default=None, ge=1, le=65_536, description="How many characters a string may have.")
    choices: list[Value] | None = Field(default=None, min_length=1, description="The values that are accepted.")
    min: int | None = Field(default=None, description="The least integer.")
    max: int | None = Field(default=None, description="The greatest integer.")


class LimitsEntry(Entry):
    """What bounds the runbook over all of its runs."""

    concurrent_nodes: NodeCount | None = Field(
        None, description="Nodes at once: a number, or a percentage of the pool."
    )
    canary: int = Field(default=0, ge=0, le=100_000, description="Nodes in a first wave.")
    max_failures: int = Field(
        default=1, ge=1, le=100_000, description="After so many failed nodes the rest is cancelled."
    )
    cooldown: Duration = Field(default=timedelta(0), description="Between two runs that alerts start on one node.")
    approval_expires: SomeTime = Field(default=timedelta(hours=1), description="How long a gate waits for an answer.")


class EscalationEntry(Entry):
    """A runbook to request after a known failure."""

    when: Script | None = Field(default=None, description="CEL; the first entry that matches wins.")
    runbook: Name = Field(description="The name of the runbook.")


class RetryEntry(Entry):
    """How often a known failure is tried again, starting at check."""

    attempts: int = Field(ge=2, le=20, description="Tries, the first one included.")
    delay: Duration = Field(description="The pause before the second try.")
    backoff: float = Field(default=1.0, ge=1, le=10, description="Each further pause is so many times longer.")


class StepEntry(Entry):
    """A step: asks (check), acts (run), proves (verify)."""

    id: Name = Field(description="What rules and conditions call the step.")
    title: Line = Field(description="What the step does, in one line.")
    where: Where = Field(default=Where.NODE, strict=False, description="node, or controller: the node's control plane.")
    when: Script | None = Field(
        None, description="CEL over params, node, trigger and steps; false: the step is skipped."
    )
    read_only: bool = Field(default=False, description="`run` only reads: a dry run executes it.")
    always: bool = Field(default=False, description="Plays also after failure, denial, expiry, cancel and a crash.")
    undoes: Name | None = Field(default=None, description="With `always`: the earlier step whose act is undone.")
    reboots: bool = Field(default=False, description="`run` may reboot the node.")
    reads: list[Annotated[Reads, Field(strict=False)]] = Field(
        default_factory=list, description="What check, verify and read_only scripts may talk to: containers."
    )
    approval: ApprovalKind = Field(default=ApprovalKind.NONE, strict=False, description="Who must agree before `run`.")
    waivable: bool = Field(default=True, description="Whether a reviewed rule may waive the gate.")
    needs_reason: bool = Field(default=False, description="Whether who approves must say why.")
    check: Script | None = Field(
        default=None, description="Shell: exit 0 with targets in $UNSTICK_TARGETS, 77: nothing to do."
    )
    run: Script | None = Field(
        default=None, description="Shell: act on what is approved and still true; 77: none was left."
    )
    verify: Script | None = Field(
        None, description="Shell: exit 0 well, 77 or 1 not well (yet), other: could not look."
    )
    timeout: SomeTime = Field(description="The time that each script may take.")
    within: SomeTime | None = Field(default=None, description="Ask verify again until then.")
    retry: RetryEntry | None = Field(default=None, description="For known failures only.")
    on_failure: OnFailure = Field(
        default=OnFailure.STOP, strict=False, description="stop, or continue with the next step."
    )
    prelude: list[Library] | None = Field(
        default=None, description="The files of the runbook's prelude that its scripts need; without it, all."
    )


class RunbookFile(Entry):
    """A runbook: one cure for one kind of trouble on a node."""

    version: int = Field(alias="schema", ge=1, le=1, description="1, the version of this format.")
    name: Name = Field(description="The name of the file, without .yaml.")
    title: Line = Field(description="One line.")
    owner: Line = Field(description="The team that answers for it.")
    description: Script = Field(description="What is wrong on such a node, and what the cure does to it.")
    prevention: str = Field(default="", description="What would keep it from coming back; printed in the postmortem.")
    known_not_to_cure: list[Line] = Field(default=[], description="What people try that does not help.")
    needs: list[Word] = Field(default=[], description="Node attributes that must exist; scripts see NODE_<ATTRIBUTE>.")
    params: dict[Word, ParamEntry] = Field(
        default={}, description="Values that scripts see as PARAM_<NAME>; no secrets."
    )
    limits: LimitsEntry | None = Field(default=None, description="What bounds the runbook over all of its runs.")
    escalate_to: Annotated[list[EscalationEntry], BeforeValidator(_goals)] = Field(
        default=[], description="The runbook to request after a known failure: a name, or a list of {when, runbook}."
    )
    prelude: Prelude = Field(default="", description="Shell before every script: text, or a list of files in lib/.")
    steps: list[StepEntry] = Field(min_length=1, max_length=50, description="Played in this order.")
