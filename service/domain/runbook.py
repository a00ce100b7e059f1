"""A runbook: one cure, as values. `app/load_runbooks.py` makes them from YAML."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from service.domain.condition import Condition
from service.domain.script import Reads, ScriptKind

#: How a file of `runbooks/lib/` begins: so a step can be given some files of the prelude and not all.
_PART = re.compile(r"^# runbooks/(lib/[A-Za-z0-9][A-Za-z0-9._-]*\.sh):", re.MULTILINE)

#: What a parameter's value may be.
ParamValue = str | int | bool


class ParamType(StrEnum):
    """The type of a parameter."""

    STRING = "string"
    INTEGER = "integer"
    BOOLEAN = "boolean"


class Where(StrEnum):
    """Where the scripts of a step run."""

    NODE = "node"
    CONTROLLER = "controller"


class ApprovalKind(StrEnum):
    """Who must agree before `run` is sent."""

    #: Nobody.
    NONE = "none"
    #: Any operator who has seen the check, the requester too.
    CONFIRM = "confirm"
    #: An approver who neither requested the run nor owns the source that fired it.
    SECOND_PERSON = "second_person"


class OnFailure(StrEnum):
    """What a failed step does to the steps after it."""

    STOP = "stop"
    CONTINUE = "continue"


@dataclass(frozen=True)
class Param:
    """One typed and bounded parameter."""

    name: str
    type: ParamType
    description: str
    #: None: the value must be given.
    default: ParamValue | None = None
    pattern: str | None = None
    max_length: int = 1024
    choices: tuple[ParamValue, ...] = ()
    min: int | None = None
    max: int | None = None


@dataclass(frozen=True)
class Retry:
    """How often a known failure is tried again, starting at check (and at the gate)."""

    #: Tries, the first one included.
    attempts: int
    delay: timedelta
    backoff: float = 1.0


@dataclass(frozen=True)
class Step:
    """Asks (`check`), acts (`run`) and proves (`verify`); a script that is None is absent."""

    id: str
    title: str
    timeout: timedelta
    check: str | None = None
    run: str | None = None
    verify: str | None = None
    where: Where = Where.NODE
    when: Condition | None = None
    read_only: bool = False
    always: bool = False
    undoes: str | None = None
    reboots: bool = False
    #: What its scripts that only read may talk to although they are confined.
    reads: tuple[Reads, ...] = ()
    approval: ApprovalKind = ApprovalKind.NONE
    waivable: bool = True
    #: Whether who approves says why.
    needs_reason: bool = False
    within: timedelta | None = None
    retry: Retry | None = None
    on_failure: OnFailure = OnFailure.STOP
    #: The files of the runbook's prelude that its scripts need; None: all of it.
    prelude: tuple[str, ...] | None = None

    @property
    def acts(self) -> bool:
        """Whether `run` changes the node."""
        return self.run is not None and not self.read_only

    def script(self, kind: ScriptKind) -> str | None:
        """Return the body of one script, or None."""
        match kind:
            case ScriptKind.CHECK:
                return self.check
            case ScriptKind.RUN:
                return self.run
            case ScriptKind.VERIFY:
                return self.verify


@dataclass(frozen=True)
class Count:
    """A number of nodes, or a percentage of a pool rounded down, at least 1."""

    number: int
    percent: bool = False

    def of(self, size: int) -> int:
        """Return how many nodes that is in a pool of `size` nodes."""
        return max(1, size * self.number // 100) if self.percent else self.number


@dataclass(frozen=True)
class Limits:
    """What bounds a runbook over all of its runs."""

    #: None: no bound of its own.
    concurrent_nodes: Count | None = None
    #: Nodes in a first wave; 0: no such wave.
    canary: int = 0
    max_failures: int = 1
    #: Between two acting node runs of this runbook that alerts start on one node.
    cooldown: timedelta = timedelta(0)
    approval_expires: timedelta = timedelta(hours=1)


@dataclass(frozen=True)
class Escalation:
    """The runbook to request after a known failure, when the condition holds."""

    runbook: str
    when: Condition | None = None


@dataclass(frozen=True)
class Runbook:
    """One cure."""

    name: str
    title: str
    owner: str
    description: str
    steps: tuple[Step, ...]
    #: SHA-256 of the file as it was read.
    file_sha256: str
    prevention: str = ""
    known_not_to_cure: tuple[str, ...] = ()
    #: Names of node attributes that must exist.
    needs: tuple[str, ...] = ()
    params: tuple[Param, ...] = ()
    limits: Limits = field(default_factory=Limits)
    escalate_to: tuple[Escalation, ...] = ()
    #: Shell before every script, files of `runbooks/lib/` already inlined.
    prelude: str = ""
    #: The git revision of the folder it came from, or empty.
    revision: str = ""

    def step(self, step_id: str) -> Step:
        """Return the step of this id; KeyError when there is none."""
        for step in self.steps:
            if step.id == step_id:
                return step
        raise KeyError(step_id)

    @property
    def prelude_parts(self) -> Mapping[str, str]:
        """Return the prelude's files by name, in order; a file begins with a line `# runbooks/lib/NAME.sh:`."""
        begins = [(found[1], found.start()) for found in _PART.finditer(self.prelude)]
        ends = [at for _, at in begins[1:]] + [len(self.prelude)]
        return {name: self.prelude[at:end] for (name, at), end in zip(begins, ends, strict=True)}

    def prelude_of(self, step: Step) -> str:
        """Return the shell before the scripts of a step."""
        if step.prelude is None:
            return self.prelude
        return "".join(text for name, text in self.prelude_parts.items() if name in step.prelude)

    @property
    def acts(self) -> bool:
        """Whether any step changes a node."""
        return any(step.acts for step in self.steps)


#: Names that a condition of a step or an escalation may use.
CONDITION_NAMES = frozenset({"params", "node", "trigger", "steps"})

NodeAttributes = Mapping[str, str]
