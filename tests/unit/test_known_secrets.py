"""What the service holds is a secret by its very value; what a house calls one, by its pattern."""

import pytest

from service.domain.known_secrets import KNOWN, SHORTEST
from service.domain.redaction import mask, redact

SECRET = 'pa$$ "word"/1'


@pytest.mark.parametrize("shown", [SECRET, "pa%24%24%20%22word%22%2F1", "pa%24%24+%22word%22%2F1", 'pa$$ \\"word\\"/1'])
def test_s09_a_value_that_is_known_is_masked_in_each_way_of_writing_it(shown: str) -> None:
    KNOWN.learn(SECRET)

    assert redact(f"a {shown} b \udcff\ud800") == "a [redacted] b \udcff\ud800"
    assert mask(f"a {shown} b".encode() + b"\xff\x00") == b"a " + b"*" * len(shown) + b" b\xff\x00"


def test_s09_each_long_part_of_an_address_is_one_too() -> None:
    KNOWN.learn_address("slack://T1JJ3T3L2AAAABBBB/A1BRTD4JDAAAABBBB/TIiajkdnlazkcOXrIdevi7FQ/#oncall")

    assert redact("POST /services/T1JJ3T3L2AAAABBBB/A1BRTD4JDAAAABBBB/TIiajkdnlazkcOXrIdevi7FQ to #oncall") == (
        "POST /services/[redacted]/[redacted]/[redacted] to #oncall"
    )


def test_s09_a_value_that_may_be_any_word_is_not_taken_for_a_secret() -> None:
    KNOWN.learn("x" * (SHORTEST - 1), "")

    assert redact("x" * SHORTEST) == "x" * SHORTEST


def test_s09_a_pattern_of_the_house_masks_all_that_it_finds_and_no_longer_when_it_is_gone() -> None:
    KNOWN.look_for(("emp-[0-9]+", "(?s)KEY.*?END"))

    assert redact("emp-12 and emp-x") == "[redacted] and emp-x"
    assert mask(b"\xffemp-12 KEY\nabc\nEND .") == b"\xff****** ***\n***\n*** ."
    KNOWN.look_for(())
    assert redact("emp-12") == "emp-12"


def test_s09_of_many_values_the_newest_are_known() -> None:
    for number in range(1001):
        KNOWN.learn(f"secret-{number:04}")

    assert redact("secret-0000 secret-1000") == "secret-0000 [redacted]"


def test_s09_no_secret_is_forgotten_for_the_many_lines_of_keys() -> None:
    KNOWN.learn("the-password-of-the-database")
    for number in range(1001):
        KNOWN.learn_key(f"line-{number:04}")

    assert redact("the-password-of-the-database line-0000 line-1000") == "[redacted] line-0000 [redacted]"
