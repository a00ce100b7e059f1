"""A parameter's value is typed and bounded before it comes near a script."""

import pytest

from service.domain.errors import InvalidInput
from service.domain.param import check_param
from service.domain.runbook import Param, ParamType, ParamValue


def param(of: ParamType, **bounds: object) -> Param:
    return Param("x", of, "What x is for.", **bounds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("which", "given", "value"),
    [
        (param(ParamType.BOOLEAN), True, True),
        (param(ParamType.BOOLEAN), "false", False),
        (param(ParamType.INTEGER), 7, 7),
        (param(ParamType.INTEGER), "-7", -7),
        (param(ParamType.INTEGER, min=1, max=3), "3", 3),
        (param(ParamType.STRING), "$(reboot); `x` 'y' \"z\"\n{{ a }}", "$(reboot); `x` 'y' \"z\"\n{{ a }}"),
        (param(ParamType.STRING, pattern="[a-z]+"), "abc", "abc"),
        (param(ParamType.STRING, pattern="(/?[a-z0-9]+)+/"), "/mnt/data/", "/mnt/data/"),
        (param(ParamType.STRING, pattern="[äöü]+"), "äöü", "äöü"),
        (param(ParamType.STRING, max_length=3), "äöü", "äöü"),
        (param(ParamType.STRING, choices=("a", "b")), "b", "b"),
        (param(ParamType.INTEGER, choices=(1, 2)), "2", 2),
        (param(ParamType.STRING), "", ""),
    ],
)
def test_a_value_that_fits_comes_back_in_its_type(which: Param, given: object, value: ParamValue) -> None:
    checked = check_param(which, given)

    assert (checked, type(checked)) == (value, type(value))


@pytest.mark.parametrize(
    ("which", "given", "told"),
    [
        (param(ParamType.STRING), None, "The parameter x must be given. What x is for."),
        (param(ParamType.BOOLEAN), "yes", "x is 'yes'. It may be true or false."),
        (param(ParamType.BOOLEAN), 1, "x is 1. It may be true or false."),
        (param(ParamType.BOOLEAN), "True", "x is 'True'. It may be true or false."),
        (param(ParamType.INTEGER), True, "x is True. It must be a whole number."),
        (param(ParamType.INTEGER), "1e3", "x is '1e3'. It must be a whole number."),
        (param(ParamType.INTEGER), 1.0, "x is 1.0. It must be a whole number."),
        (param(ParamType.INTEGER), "٣", "x is '٣'. It must be a whole number."),
        (param(ParamType.INTEGER), "9" * 19, f"x is '{'9' * 19}'. It must be a whole number."),
        (param(ParamType.INTEGER, min=3), 2, "x is 2. It must be at least 3."),
        (param(ParamType.INTEGER, max=3), 4, "x is 4. It may be at most 3."),
        (param(ParamType.STRING), 5, "x is 5. It must be text."),
        (param(ParamType.STRING), ["a"], "x is ['a']. It must be text."),
        (param(ParamType.STRING), "a\r\nb", "x holds a carriage return or a zero byte. Take it out."),
        (param(ParamType.STRING), "a\0", "x holds a carriage return or a zero byte. Take it out."),
        (param(ParamType.STRING), "a\ud800", "x holds half a character (a lone surrogate). Take it out."),
        (param(ParamType.STRING), "a" * 1025, "x has 1025 characters. It may have 1024."),
        (param(ParamType.STRING, pattern="[a-z]+"), "abc\n", "x is 'abc\\n'. It must match [a-z]+."),
        (param(ParamType.STRING, pattern="^[a-z]+$"), "abc\n", "x is 'abc\\n'. It must match ^[a-z]+$."),
        (param(ParamType.STRING, choices=("a", "b")), "c", "x is 'c'. It may be one of: a, b."),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_would(which: Param, given: object, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_param(which, given)

    assert str(caught.value) == told


@pytest.mark.parametrize("pattern", ["(/?[a-z0-9]+)+/", "(a|aa)+$", "(.*)*x", "([a-z]+)*[0-9]"])
def test_no_value_keeps_a_pattern_busy(pattern: str) -> None:
    """An engine that tries every way would need longer than any test waits."""
    which = param(ParamType.STRING, pattern=pattern, max_length=65_536)

    with pytest.raises(InvalidInput, match=r"It must match "):
        check_param(which, "a" * 65_535 + "!")
