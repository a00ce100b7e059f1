"""Which deliveries become of the samples that Prometheus keeps of its alerts."""

from collections.abc import Iterable

import pytest

from service.triggers.prometheus_series import Delivered, Occasions, Sample, fingerprint

LABELS = {"alertname": "Ghost", "node": "gpu-01"}
DAY = 86_400.0
#: Status and the seconds, from the begin, at which it arrives, has begun and has ended.
Told = tuple[str, float, float, float | None]


def samples(*ats: float, since: float | None = None, labels: dict[str, str] = LABELS) -> list[Sample]:
    return [Sample(labels, at, since) for at in ats]


def told(*parts: Iterable[Sample], until: float = 4 * 3600.0) -> list[Told]:
    occasions = Occasions(begin=0.0, until=until)
    for part in parts:
        occasions.take(part)
    return [row(one) for one in occasions.delivered()]


def row(one: Delivered) -> Told:
    ended = None if one.alert.ends_at is None else one.alert.ends_at.timestamp()
    return one.alert.status.value, one.at.timestamp(), one.alert.starts_at.timestamp(), ended


def test_it_begins_with_its_first_firing_sample_and_ends_one_interval_behind_its_last() -> None:
    assert told(samples(600, 660, 720, since=300)) == [("firing", 610, 600, None), ("resolved", 790, 600, 780)]


def test_what_fires_on_is_repeated_and_never_resolved() -> None:
    fires = samples(*range(120, 4201, 60), since=60)

    assert told(fires, until=4200) == [
        ("firing", 130, 120, None),
        ("firing", 1930, 120, None),
        ("firing", 3730, 120, None),
    ]


@pytest.mark.parametrize(
    ("since", "later", "expected"),
    [
        (100.0, 900.0, [("firing", 610, 600, None), ("resolved", 970, 600, 960)]),
        (100.0, 1200.0, [("firing", 610, 600, None), ("resolved", 910, 600, 900), ("firing", 1210, 1200, None)]),
    ],
    ids=["Alertmanager still waits", "Alertmanager has given it up"],
)
def test_samples_that_are_missing_under_the_same_condition_are_no_end(
    since: float, later: float, expected: list[Told]
) -> None:
    found = told(samples(600, 660, since=since), samples(later, since=since))

    assert found[: len(expected)] == expected


def test_a_condition_that_began_anew_is_another_alert_however_soon() -> None:
    found = told(samples(600, 660, since=600), samples(780, 840, since=780))

    assert found == [
        ("firing", 610, 600, None),
        ("resolved", 730, 600, 720),
        ("firing", 790, 780, None),
        ("resolved", 910, 780, 900),
    ]


def test_without_the_time_of_the_condition_two_missing_samples_are_an_end() -> None:
    found = told(samples(600, 660, 840, 900))

    assert [one[:3] for one in found] == [
        ("firing", 610, 600),
        ("resolved", 730, 600),
        ("firing", 850, 840),
        ("resolved", 970, 840),
    ]


def test_what_is_over_before_alertmanager_looks_is_never_told() -> None:
    assert told(samples(600, 602, 604, since=600)) == []


def test_what_fires_when_the_time_begins_has_begun_when_its_condition_did() -> None:
    assert told(samples(30, 90, 150, since=-DAY))[0] == ("firing", 10, -DAY, None)


def test_slices_that_share_a_sample_change_nothing() -> None:
    whole = samples(*range(600, 1201, 60), since=600)

    assert told(whole[:5], whole[4:]) == told(whole)


def test_alerts_that_differ_in_a_label_are_told_in_the_order_in_which_they_arrive() -> None:
    other = samples(630, 690, since=630, labels={**LABELS, "node": "gpu-02"})

    found = told(samples(600, 660, since=600), other)

    assert [(one[0], one[1]) for one in found] == [
        ("firing", 610),
        ("firing", 640),
        ("resolved", 730),
        ("resolved", 760),
    ]


def test_an_order_of_labels_is_no_matter_and_a_border_between_name_and_value_is() -> None:
    turned = dict(reversed(LABELS.items()))

    assert fingerprint(turned) == fingerprint(LABELS) != fingerprint({"alertname": "Ghost", "nodeg": "pu-01"})
