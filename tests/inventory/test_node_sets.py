import pytest

from service.inventory.node_sets import expand


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu-01", ("gpu-01",)),
        ("gpu[01-03]", ("gpu01", "gpu02", "gpu03")),
        ("gpu[08-11]", ("gpu08", "gpu09", "gpu10", "gpu11")),
        ("gpu[1,3,5-6].lab", ("gpu1.lab", "gpu3.lab", "gpu5.lab", "gpu6.lab")),
        ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
        ("gpu[9-11]", ("gpu9", "gpu10", "gpu11")),
    ],
)
def test_a_set_stands_for_its_names_in_order(pattern: str, names: tuple[str, ...]) -> None:
    assert expand(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("gpu[01-32", "does not close"),
        ("gpu01]", "does not close"),
        ("gpu[a-c]", "is no range"),
        ("gpu[]", "is no range"),
        ("gpu[3-1]", "runs backwards"),
        ("gpu[1-2,2]", "the same machine twice"),
        ("gpu[1-20000]", "more than 10000 names"),
        ("r[1-200]n[1-200]", "stands for 40000 names"),
        ("gpu 1", "no name of a machine"),
        ("../etc[1-2]", "no name of a machine"),
        ("", "does not close"),
    ],
)
def test_a_bad_set_is_refused_with_its_reason(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        expand(pattern)
