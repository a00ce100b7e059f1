"""Deliveries and alerts that a test writes down."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from service.domain.alert import AlertStatus
from service.domain.delivery import Delivery, DeliveryState, RecordedAlert
from tests.store.made import NOON


def later(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def delivery(name: str = "d1", **changed: Any) -> Delivery:
    made = Delivery(name, "prom", NOON, DeliveryState.ACCEPTED, "ann", f"key-{name}", b"\x00body\xff" * 9, 63, 2)
    return replace(made, **changed)


def alert(index: int = 0, of: str = "d1", **changed: Any) -> RecordedAlert:
    made = RecordedAlert(
        f"{of}-{index:05d}",
        of,
        index,
        "prom",
        "ann",
        later(index),
        "f1",
        AlertStatus.FIRING,
        NOON,
        labels={"alertname": "Ghost", "wo": "stück\0"},
        annotations={"summary": "x"},
        link="https://example.org/",
        wake_at=later(index),
    )
    return replace(made, **changed)
