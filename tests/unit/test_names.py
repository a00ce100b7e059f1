"""Which names a person may have, and which texts say nothing to whoever reads them."""

import pytest

from service.domain.login import fault_of_name
from service.domain.person_name import person_key
from service.domain.shown_text import is_blank

UNSEEN = (
    "\u200b",
    "\u00ad",
    "\u2060",
    "\u034f",
    "\u115f",
    "\u3164",
    "\uffa0",
    "\u2800",
    "\u180b",
    "\ufe0f",
    "\U000e0101",
)


@pytest.mark.parametrize("sign", UNSEEN)
def test_a_sign_that_nobody_sees_makes_no_other_person_and_no_reason(sign: str) -> None:
    assert (person_key(f"a{sign}nn"), person_key(f"ann {sign}"), person_key(sign)) == ("ann", "ann", "")
    assert is_blank(f" {sign}\n\t")
    assert not is_blank(f"{sign}x")


@pytest.mark.parametrize("name", ["\u0430nn", "b\u03bfb", "\u0410nn", "ann@ex\u0430mple.org", "Bo\u0184\u0432"])
def test_a_name_that_only_programs_can_tell_from_another_is_refused(name: str) -> None:
    assert fault_of_name(name).startswith("mixes letters that look alike (")


@pytest.mark.parametrize("name", ["ann-2", "\u00c5sa", "\u0438\u0432\u0430\u043d@example.org", "\u5c71\u7530 Taro"])
def test_a_name_in_one_script_to_the_word_is_taken(name: str) -> None:
    assert fault_of_name(name) == ""
