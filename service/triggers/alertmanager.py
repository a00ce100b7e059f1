"""What Prometheus' Alertmanager sends: its webhook, version 4.

The form is that of notify/webhook/webhook.go and template/template.go in
https://github.com/prometheus/alertmanager; fields that are added there are no matter here.
"""

from collections.abc import Mapping
from datetime import datetime

from service.domain.alert import Parsed
from service.domain.errors import InvalidInput
from service.triggers.body import read_object, shown_at
from service.triggers.prometheus_form import read_group


def parse(body: bytes, headers: Mapping[str, str], *, now: datetime) -> Parsed:
    """Return the alerts of a delivery, each by its own status; InvalidInput for anything but version 4.

    A delivery has no name: two peers of a cluster send the same alerts, and each repeat looks like the first.
    """
    root = read_object(body)
    if root.get("version") != "4":
        raise InvalidInput(
            f"This is not version 4 of Alertmanager's webhook: `version` is {shown_at(root, 'version')}.",
            "Use `webhook_configs` as it is, without a `payload` of your own.",
        )
    return read_group(root)
