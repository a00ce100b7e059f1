"""Parameters: those a call gives to a document, and those that are stored under names.

A document's `{{ name }}` is replaced by the call's value, then `{{ssm:name}}` anywhere in the result by the stored one:
the ways of aws/amazon-ssm-agent, agent/framework/docparser (parameters.go, parameterstore.go).
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from lab.ssm.errors import Refusal

STORED = re.compile(r"\{\{ *ssm:([/\w.:-]+) *\}\}")
Value = str | list[str]


class NotStored(Exception):
    """A `{{ssm:name}}` whose name nobody stored; the agent fails the document for it."""


def given(
    rules: Mapping[str, Mapping[str, Any]], sent: Mapping[str, list[str]], stored: Mapping[str, str]
) -> dict[str, Value]:
    """Check a call's parameters against the document's rules; give the value of each, defaults included."""
    for name in sent:
        if name not in rules:
            raise _invalid(f"Parameter {name} is not defined in the document.")
    values: dict[str, Value] = {}
    for name, rule in rules.items():
        if name in sent:
            values[name] = _typed(name, rule, sent[name])
            _check(name, rule, values[name], stored)
        elif "default" in rule:
            values[name] = rule["default"]
        else:
            raise _invalid(f"Parameter {name} is required and was not given.")
    return values


def fill(tree: Any, values: Mapping[str, Value]) -> Any:
    """Replace every `{{ name }}` in a tree of JSON; a string that is nothing else becomes the value itself."""
    match tree:
        case str():
            alone = re.fullmatch(r"\{\{\s*([a-zA-Z0-9]+)\s*\}\}", tree)
            if alone is not None and alone[1] in values:
                return values[alone[1]]
            return re.sub(r"\{\{\s*([a-zA-Z0-9]+)\s*\}\}", lambda found: _text(found, values), tree)
        case list():
            return [fill(each, values) for each in tree]
        case dict():
            return {name: fill(each, values) for name, each in tree.items()}
        case _:
            return tree


def resolve(tree: Any, stored: Mapping[str, str]) -> Any:
    """Replace every `{{ssm:name}}` and `{{ssm:name:version}}` in a tree; NotStored names what is missing."""
    match tree:
        case str():
            return STORED.sub(lambda found: _stored(found[1], stored), tree)
        case list():
            return [resolve(each, stored) for each in tree]
        case dict():
            return {name: resolve(each, stored) for name, each in tree.items()}
        case _:
            return tree


def _text(found: re.Match[str], values: Mapping[str, Value]) -> str:
    value = values.get(found[1])
    if value is None:
        return found[0]
    # The agent halves every `$$` of a value that is set into a longer string.
    return (value if isinstance(value, str) else json.dumps(value)).replace("$$", "$")


def _stored(name: str, stored: Mapping[str, str]) -> str:
    for known in (name, name.rpartition(":")[0]):
        if known in stored:
            return stored[known]
    raise NotStored(f"Input contains invalid parameters [{name}]")


def _typed(name: str, rule: Mapping[str, Any], sent: list[str]) -> Value:
    if rule["type"] == "StringList":
        return sent
    if len(sent) != 1:
        raise _invalid(f"Parameter {name} is a String and takes exactly one value.")
    return sent[0]


def _check(name: str, rule: Mapping[str, Any], value: Value, stored: Mapping[str, str]) -> None:
    items = value if isinstance(value, list) else [value]
    if not rule.get("minItems", 0) <= len(items) <= rule.get("maxItems", len(items)):
        raise _invalid(f"Parameter {name} has {len(items)} items, which is not allowed.")
    for item in items:
        try:
            text = resolve(item, stored)
        except NotStored:
            continue  # the agent finds out
        if not rule.get("minChars", 0) <= len(text) <= rule.get("maxChars", len(text)):
            raise _invalid(f"Parameter {name} has {len(text)} characters, which is not allowed.")
        if "allowedValues" in rule and text not in rule["allowedValues"]:
            raise _invalid(f"Parameter {name} is not one of the allowed values: {', '.join(rule['allowedValues'])}.")
        if "allowedPattern" in rule and not re.fullmatch(rule["allowedPattern"], text):
            raise _invalid(f"Parameter {name} failed to satisfy the pattern {rule['allowedPattern']}.")


def _invalid(why: str) -> Refusal:
    return Refusal("InvalidParameters", why)
