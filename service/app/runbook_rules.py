"""What the values of a runbook must say together, and what its scripts must not do."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.app.finding import Severity
from service.app.runbook_yaml import Document, Where
from service.domain.condition import Condition
from service.domain.runbook import ApprovalKind, Runbook, Step
from service.domain.script import ScriptKind, render

#: Packed as it goes to Run Command, a longer one might not fit into a document of 64 KB.
LONGEST_SCRIPT = 32 * 1024
#: What the envelope exports to every script.
ENVELOPE_NAMES = frozenset(
    f"UNSTICK_{name}" for name in ("RUN_ID", "STEP", "ATTEMPT", "TARGETS", "BOOT_ID", "LAST_BOOT_ID")
)

_GIVEN_NAME = re.compile(r"(?<![A-Za-z0-9_])(PARAM|NODE|UNSTICK)_[A-Za-z0-9_]+")
_CONNECTIONS_VARIABLE = re.compile(r"""(?m)(?:^|[\s;])([A-Za-z_]\w*)=["']?/sys/fs/fuse/connections["']?/?(?:\s|;|$)""")


@dataclass(frozen=True)
class Fault:
    """One fault at its place in the document."""

    where: Where
    #: A sentence; one that begins small goes on after the name of the key.
    reason: str
    way_out: str
    severity: Severity = Severity.ERROR
    #: The line when it is known better than by the place; 0: by the place.
    line: int = 0


def faults(runbook: Runbook, document: Document) -> Iterator[Fault]:
    """Yield every fault of a runbook whose single values are right."""
    yield from _names(runbook)
    earlier: dict[str, Step] = {}
    for number, step in enumerate(runbook.steps):
        where: Where = ("steps", number)
        if step.id in earlier:
            yield Fault((*where, "id"), "is the id of an earlier step.", "Give each step its own.")
        yield from _shape(step, where, waivable_given=(*where, "waivable") in document.lines)
        yield from _undo(step, where, earlier=earlier)
        if step.reboots and step.acts and not any(one.read_only for one in earlier.values()):
            reason = "may lose what the node was like, and no `read_only` step above records it."
            yield Fault((*where, "reboots"), reason, "Add one that prints the evidence: without it nothing is sent.")
        yield from _part(runbook, step, where)
        yield from _unnamed(runbook, step, where)
        if step.when is not None:
            yield from _condition(step.when, (*where, "when"), runbook=runbook, earlier=set(earlier))
        for kind in ScriptKind:
            body = step.script(kind)
            if body is not None:
                script = (*where, str(kind))
                yield from _script(body, script, runbook=runbook, document=document, prelude=runbook.prelude_of(step))
        earlier[step.id] = step
    for number, goal in enumerate(runbook.escalate_to):
        if goal.when is not None:
            place: Where = ("escalate_to", number, "when")
            yield from _condition(goal.when, place, runbook=runbook, earlier=set(earlier))


def escalation_faults(runbook: Runbook, runbooks: Mapping[str, Runbook], *, known: frozenset[str]) -> Iterator[Fault]:
    """Yield what is wrong with where a runbook escalates to.

    `runbooks` are the good ones by name; `known` also has those whose file is refused.
    """
    for number, goal in enumerate(runbook.escalate_to):
        where: Where = ("escalate_to", number)
        if goal.runbook not in known:
            yield Fault(where, f"There is no runbook {goal.runbook}.", "Add it first, or escalate to another.")
            continue
        circle = _circle(runbook.name, goal.runbook, runbooks)
        if circle:
            way_out = "Take one of these away; a person is called where it ends."
            yield Fault(where, f"Escalation leads in a circle: {' -> '.join(circle)}.", way_out)
        target = runbooks.get(goal.runbook)
        if target is not None:
            yield from _handed_over(runbook, target, where)


def _handed_over(runbook: Runbook, target: Runbook, where: Where) -> Iterator[Fault]:
    own = {param.name: param.type for param in runbook.params}
    for param in target.params:
        if param.name not in own:
            if param.default is None:
                reason = f"The runbook {target.name} must be given {param.name}, which {runbook.name} has not."
                yield Fault(where, reason, f"Give {param.name} a default there, or declare it here.")
        elif own[param.name] is not param.type:
            reason = f"The parameter {param.name} is {own[param.name]} here and {param.type} in {target.name}."
            yield Fault(where, reason, "Give both the same type, or one another name.")


def _circle(start: str, first: str, runbooks: Mapping[str, Runbook]) -> list[str]:
    """Return the way from `start` by `first` back to `start`, or nothing."""
    seen = {first}
    ways = [[start, first]]
    while ways:
        way = ways.pop()
        if way[-1] == start:
            return way
        following = runbooks.get(way[-1])
        for goal in following.escalate_to if following else ():
            if goal.runbook == start or goal.runbook not in seen:
                seen.add(goal.runbook)
                ways.append([*way, goal.runbook])
    return []


def _names(runbook: Runbook) -> Iterator[Fault]:
    for number, name in enumerate(runbook.needs):
        if name == "name":
            yield Fault(("needs", number), "NODE_NAME is the node's own name.", "Call the attribute something else.")
        if name in runbook.needs[:number]:
            yield Fault(("needs", number), f"names {name} twice.", "Remove one.")
    yield from _undeclared(runbook.prelude, ("prelude",), runbook=runbook)


def _shape(step: Step, where: Where, *, waivable_given: bool) -> Iterator[Fault]:
    """Yield the keys of a step that do not go together."""
    gated = step.approval is not ApprovalKind.NONE
    rules = (
        (step.run is None and step.verify is None, "id", "The step has neither run nor verify.", "Give it one."),
        (step.check is not None and step.run is None, "check", "has no `run` to look for.", "Make it verify."),
        (
            step.acts and step.verify is None,
            "run",
            "acts, and no `verify` proves that it helped.",
            "Add verify, or say `read_only: true` when it only reads.",
        ),
        (
            gated and step.acts and step.check is None and not step.always,
            "approval",
            "has nothing to show: a gate opens on what `check` saw, and an approval binds it.",
            "Add check, which names its targets.",
        ),
        (
            step.read_only and step.run is None,
            "read_only",
            "says something of a `run`, and there is none.",
            "Remove it.",
        ),
        (step.read_only and step.check is not None, "check", "is not asked for a `run` that only reads.", "Remove it."),
        (gated and not step.acts, "approval", "is for a step that acts.", "Remove it."),
        (waivable_given and not gated, "waivable", "says something of a gate, and there is none.", "Remove it."),
        (step.needs_reason and not gated, "needs_reason", "is for who answers a gate; there is none.", "Remove it."),
        (step.within is not None and step.verify is None, "within", "is how long `verify` is asked.", "Remove it."),
        (step.reboots and not step.acts, "reboots", "is for a step that acts.", "Remove it."),
    )
    for broken, key, reason, way_out in rules:
        if broken:
            yield Fault((*where, key), reason, way_out)


def _part(runbook: Runbook, step: Step, where: Where) -> Iterator[Fault]:
    """Yield the files of the prelude that a step names and the runbook has not."""
    for number, name in enumerate(step.prelude or ()):
        if name not in runbook.prelude_parts:
            reason = f"names {name}, which is no file of the runbook's prelude."
            way_out = f"Name it there; the file begins with `# runbooks/{name}:`."
            yield Fault((*where, "prelude", number), reason, way_out)


def _unnamed(runbook: Runbook, step: Step, where: Where) -> Iterator[Fault]:
    """Yield that a gate shows no targets: neither the check nor what stands before it knows where they are written."""
    if step.approval is ApprovalKind.NONE or not step.acts or step.check is None:
        return
    if "UNSTICK_TARGETS" not in f"{runbook.prelude_of(step)}{step.check}":
        reason = "names no targets, so an approval is for nothing in particular."
        way_out = "Write what `run` would act on into $UNSTICK_TARGETS, one a line."
        yield Fault((*where, "check"), reason, way_out, Severity.WARNING)


def _undo(step: Step, where: Where, *, earlier: Mapping[str, Step]) -> Iterator[Fault]:
    """Yield what is wrong with a step that undoes another."""
    if not step.always:
        if step.undoes is not None:
            yield Fault((*where, "undoes"), "is for a step with `always: true`.", "Add it.")
        return
    if step.undoes is None:
        yield Fault((*where, "always"), "names no step that it undoes.", "Add `undoes` with the id of an earlier step.")
    elif step.undoes not in earlier:
        yield Fault((*where, "undoes"), f"names {step.undoes}, which is no earlier step.", "Name a step above.")
    elif not earlier[step.undoes].acts or earlier[step.undoes].always:
        yield Fault((*where, "undoes"), f"names {step.undoes}, which changes nothing.", "Name a step that acts.")
    elif earlier[step.undoes].check is None:
        reason = f"names {step.undoes}, which has no check and so records nothing to restore."
        yield Fault((*where, "undoes"), reason, "Let a check there write its targets.", Severity.WARNING)
    if not step.acts:
        yield Fault((*where, "always"), "is for a step that acts.", "Add run and verify, and no read_only.")
    if step.check is not None:
        yield Fault(
            (*where, "check"), "is not asked by a step with `always`: it gets the targets that were.", "Remove it."
        )
    if step.approval is not ApprovalKind.NONE:
        yield Fault((*where, "approval"), "cannot hold a step with `always`.", "Remove it.")


def _condition(condition: Condition, where: Where, *, runbook: Runbook, earlier: set[str]) -> Iterator[Fault]:
    params = {param.name for param in runbook.params}
    for name, asked in sorted(condition.references, key=str):
        if name == "steps" and asked is None:
            yield Fault(where, "asks for steps without naming one.", 'Write steps["step-id"].outcome.')
        elif name == "steps" and asked not in earlier:
            yield Fault(where, f"asks for the step {asked}, which is no earlier step.", "Name a step above.")
        elif name == "params" and asked is not None and asked not in params:
            yield Fault(where, f"asks for the parameter {asked}, which is not declared.", "Declare it under params.")


def _script(body: str, where: Where, *, runbook: Runbook, document: Document, prelude: str) -> Iterator[Fault]:
    text = document.texts.get(where)
    first = text.line if text is not None and text.style == "|" else 0
    yield from _undeclared(body, where, runbook=runbook, first=first)
    size = len(render(prelude=prelude, body=body, environment={}).encode())
    if size > LONGEST_SCRIPT:
        reason = f"is {size} bytes long with its prelude; SSM carries {LONGEST_SCRIPT}."
        yield Fault(where, reason, "Shorten it, or take files out of its prelude that it does not need.")
    if _aborts_all(body, prelude):
        reason = "aborts FUSE connections by a glob, healthy ones too."
        yield Fault(where, reason, "Abort the approved ones by number: read them from $UNSTICK_TARGETS.")
    if text is None:
        return
    if text.cut:
        reason = "is cut at ` #`: the rest of the line is a comment."
        yield Fault(where, reason, "Quote it, or write it as a block after `|`.", Severity.WARNING, text.line)
    if text.several_lines and text.style != "|":
        reason = "is written over several lines that YAML joins into one."
        yield Fault(where, reason, "Write it as a block after `|`.", Severity.WARNING)


def _undeclared(script: str, where: Where, *, runbook: Runbook, first: int = 0) -> Iterator[Fault]:
    """Yield the names of given variables that nobody gives; `first` is the line of the script, 0: not known."""
    declared = {"NODE_NAME", *ENVELOPE_NAMES}
    declared |= {f"PARAM_{param.name.upper()}" for param in runbook.params}
    declared |= {f"NODE_{name.upper()}" for name in runbook.needs}
    ways = {
        "PARAM": "Declare it under params.",
        "NODE": "Name the attribute under needs.",
        "UNSTICK": f"The envelope gives {', '.join(sorted(ENVELOPE_NAMES))}.",
    }
    seen = set()
    for match in _GIVEN_NAME.finditer(script):
        if match.group() not in declared and match.group() not in seen:
            seen.add(match.group())
            line = first + script.count("\n", 0, match.start()) if first else 0
            yield Fault(where, f"uses {match.group()}, which is not declared.", ways[match[1]], line=line)


def _aborts_all(body: str, prelude: str) -> bool:
    """Return whether a script seems to write to every connection: a known wrong answer that kills healthy mounts.

    https://github.com/GoogleCloudPlatform/gcsfuse/issues/79 and https://github.com/lxc/lxcfs/issues/193 tell of it.
    """
    code = "\n".join(line for line in body.split("\n") if not line.lstrip().startswith("#"))
    if "abort" not in code:
        return False
    names = [re.escape(name) for name in _CONNECTIONS_VARIABLE.findall(f"{prelude}\n{code}")]
    folder = "|".join([r"/sys/fs/fuse/connections", *(rf"\$\{{?{name}\}}?" for name in names)])
    globbed = rf"""(?:{folder})["']?/["']?[^\s/;|&)]*[*?\[]"""
    found = rf"""find\s[^\n;|]*(?:{folder})[^\n]*-i?(?:name|path)\s+["']?[^\s]*abort"""
    return re.search(globbed, code) is not None or re.search(found, code) is not None
