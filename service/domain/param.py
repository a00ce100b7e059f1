"""Checks one parameter's value against what its runbook says."""

import re

from service.domain.errors import InvalidInput
from service.domain.pattern import matches
from service.domain.runbook import Param, ParamType, ParamValue

_WORDS = {"true": True, "false": False}


def check_param(param: Param, value: object) -> ParamValue:
    """Return the value in its type; text from a command line is read as that type.

    Raises InvalidInput, which names the parameter and what it may be.
    """
    if value is None:
        raise InvalidInput(f"The parameter {param.name} must be given.", param.description)
    match param.type:
        case ParamType.BOOLEAN:
            checked: ParamValue = _boolean(param, value)
        case ParamType.INTEGER:
            checked = _integer(param, value)
        case ParamType.STRING:
            checked = _string(param, value)
    if param.choices and checked not in param.choices:
        allowed = ", ".join(str(choice) for choice in param.choices)
        raise InvalidInput(f"{param.name} is {checked!r}.", f"It may be one of: {allowed}.")
    return checked


def _boolean(param: Param, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    raise InvalidInput(f"{param.name} is {value!r}.", "It may be true or false.")


def _integer(param: Param, value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{param.name} is {value!r}.", "It must be a whole number.")
    if param.min is not None and value < param.min:
        raise InvalidInput(f"{param.name} is {value}.", f"It must be at least {param.min}.")
    if param.max is not None and value > param.max:
        raise InvalidInput(f"{param.name} is {value}.", f"It may be at most {param.max}.")
    return value


def _string(param: Param, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{param.name} is {value!r}.", "It must be text.")
    if "\0" in value or "\r" in value:
        raise InvalidInput(f"{param.name} holds a carriage return or a zero byte.", "Take it out.")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        # JSON can hold one; no script can be sent with it.
        raise InvalidInput(f"{param.name} holds half a character (a lone surrogate).", "Take it out.")
    if len(value) > param.max_length:
        raise InvalidInput(f"{param.name} has {len(value)} characters.", f"It may have {param.max_length}.")
    if param.pattern is not None and not matches(param.pattern, value):
        raise InvalidInput(f"{param.name} is {value!r}.", f"It must match {param.pattern}.")
    return value
