"""Requests and answers checked against botocore's model of SSM: types, min, max, pattern, enum, required members."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import botocore.session

from lab.ssm.errors import Refusal

OPERATIONS = frozenset(
    {
        "SendCommand", "CancelCommand", "GetCommandInvocation", "ListCommands", "ListCommandInvocations",
        "DescribeInstanceInformation", "DescribeDocument", "GetDocument", "CreateDocument",
    }
)  # fmt: skip
# Java's classes of characters, which Python's re does not have; \w and \s are near enough for tags.
JAVA_CLASSES = {r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": r"\s"}
# The model's pattern for dates does not fit what the service sends (milliseconds, and PT1.5S for the elapsed time).
NOT_KEPT_BY_AWS = frozenset({"StringDateTime"})
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "long": (int,), "boolean": (bool,), "timestamp": (int, float),
    "list": (list,), "map": (dict,), "structure": (dict,),
}  # fmt: skip


class WrongType(Exception):
    """A value of another JSON type than the model has."""


@cache
def model() -> Any:
    """Load botocore's description of the service, once."""
    return botocore.session.get_session().get_service_model("ssm")


def check_request(operation: str, parameters: dict[str, Any]) -> None:
    """Refuse a request that breaks the model, with all that is wrong in one ValidationException."""
    try:
        found = list(_faults(model().operation_model(operation).input_shape, parameters, ""))
    except WrongType as wrong:
        raise Refusal("SerializationException", str(wrong)) from wrong
    if found:
        count = f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected"
        raise Refusal("ValidationException", f"{count}: {'; '.join(found)}")


def check_answer(operation: str, answer: dict[str, Any]) -> None:
    """Refuse to send an answer that breaks the model: ValueError, since that is a fault of the stand-in."""
    shape = model().operation_model(operation).output_shape
    try:
        found = list(_faults(shape, answer, "", ours=True)) if shape is not None else [f"{key}" for key in answer]
    except WrongType as wrong:
        found = [str(wrong)]
    if found:
        raise ValueError(f"{operation} would answer against the model: {'; '.join(found)}")


def _faults(shape: Any, value: Any, place: str, *, ours: bool = False) -> Iterator[str]:
    kind = shape.type_name
    if not _is(kind, value):
        raise WrongType(f"{place or 'the body'} is {type(value).__name__}, not {kind}")
    yield from _limits(shape, value, place)
    if kind == "structure":
        yield from _members(shape, value, place, ours=ours)
    elif kind == "list":
        for number, item in enumerate(value, 1):
            yield from _faults(shape.member, item, f"{place}.{number}.member", ours=ours)
    elif kind == "map":
        for key, item in value.items():
            yield from _faults(shape.key, key, f"{place}.key", ours=ours)
            yield from _faults(shape.value, item, f"{place}.{key}.member", ours=ours)


def _is(kind: str, value: object) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _members(shape: Any, value: dict[str, Any], place: str, *, ours: bool) -> Iterator[str]:
    for name in shape.required_members:
        if value.get(name) is None:
            yield _words("null", f"{place}.{name}", "Member must not be null")
    for name, item in value.items():
        if name in shape.members:
            if item is not None or ours:
                yield from _faults(shape.members[name], item, f"{place}.{name}", ours=ours)
        elif ours:
            yield _words("?", f"{place}.{name}", "the model has no such member")


def _limits(shape: Any, value: Any, place: str) -> Iterator[str]:
    rules = shape.metadata
    if shape.type_name in ("integer", "long"):
        size, what = value, "value"
    elif shape.type_name in ("string", "list", "map"):
        size, what = len(value), "length"
    else:
        return
    if "min" in rules and size < rules["min"]:
        yield _words(value, place, f"Member must have {what} greater than or equal to {rules['min']}")
    if "max" in rules and size > rules["max"]:
        yield _words(value, place, f"Member must have {what} less than or equal to {rules['max']}")
    if "pattern" in rules and shape.name not in NOT_KEPT_BY_AWS and not _pattern(rules["pattern"])(value):
        yield _words(value, place, f"Member must satisfy regular expression pattern: {rules['pattern']}")
    if rules.get("enum") and value not in rules["enum"]:
        yield _words(value, place, f"Member must satisfy enum value set: [{', '.join(rules['enum'])}]")


@cache
def _pattern(text: str) -> Callable[[str], re.Match[str] | None]:
    for theirs, here in JAVA_CLASSES.items():
        text = text.replace(theirs, here)
    return re.compile(text).fullmatch


def _words(value: Any, place: str, rule: str) -> str:
    path = ".".join(part[:1].lower() + part[1:] for part in place.strip(".").split("."))
    return f"Value '{value}' at '{path}' failed to satisfy constraint: {rule}"
