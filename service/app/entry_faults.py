"""Says in plain words what a model finds wrong with a value of a file."""

import difflib
from collections.abc import Iterator

from pydantic_core import ErrorDetails

from service.app.runbook_schema import Entry, shown
from service.app.runbook_yaml import Where

#: What is said of a key that nobody knows.
UNKNOWN_KEY = "is not a key that is known here."


def empty_values(value: object, where: Where) -> Iterator[Where]:
    """Yield the place of each value that is empty; `where` is that of the value itself."""
    if value is None:
        yield where
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from empty_values(item, (*where, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from empty_values(item, (*where, number))


def explain(details: ErrorDetails, where: Where, *, entry: type[Entry]) -> tuple[str, str]:
    """Return reason and way out of one error of pydantic, in our words; `entry` has the keys of its mapping."""
    context = details.get("ctx", {})
    value = shown(details["input"])
    match details["type"]:
        case "unstick":
            return f"{context['reason']}.", context["way_out"]
        case "extra_forbidden":
            return _unknown_key(str(where[-1]), entry)
        case "missing":
            return "is missing.", "Add it."
        case "string_type" | "int_type" | "bool_type" | "float_type" | "list_type" | "dict_type" | "model_type":
            kind = details["type"].removesuffix("_type")
            return f"is {value}, not {_KINDS[kind]}.", _MENDING.get(kind, f"Write {_KINDS[kind]} here.")
        case "enum":
            return f"is {value}.", f"Write {context['expected']}.".replace("'", "")
        case "string_pattern_mismatch":
            return f"is {value}.", _PATTERNS.get(context["pattern"], f"It must match {context['pattern']}.")
        case _:
            message = details["msg"].replace("Input should be", "it must be")
            return f"is {value}; {message[0].lower()}{message[1:]}.", "Write another value."


_KINDS = {
    "string": "text",
    "int": "a whole number",
    "bool": "true or false",
    "float": "a number",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
}
_MENDING = {"string": "Put it in quotes.", "bool": "Write true or false, without quotes."}
_PATTERNS = {
    r"^[a-z0-9]+(-[a-z0-9]+)*$": "Write lower-case letters and digits, joined by single hyphens.",
    r"^[a-z][a-z0-9_]*$": "Write lower-case letters, digits and underscores, a letter first.",
    r"^[^\n]*\S[^\n]*$": "Write one line of text.",
    r"\S": "Write some text, or remove the key.",
}


def _unknown_key(key: str, entry: type[Entry]) -> tuple[str, str]:
    known = [field.alias or name for name, field in entry.model_fields.items()]
    close = difflib.get_close_matches(key, known, n=1)
    way_out = f"Do you mean `{close[0]}`?" if close else f"The keys here are {', '.join(known)}."
    return UNKNOWN_KEY, way_out
