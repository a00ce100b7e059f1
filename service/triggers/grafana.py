"""What Grafana's alerting sends by the contact point "webhook", version 1.

The form: https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/
"""

from collections.abc import Mapping
from datetime import datetime

from service.domain.alert import Parsed
from service.domain.errors import InvalidInput
from service.triggers.body import read_object, shown_at
from service.triggers.prometheus_form import read_group
from service.triggers.signatures import grafana_signature


def parse(body: bytes, headers: Mapping[str, str], *, now: datetime) -> Parsed:
    """Return the alerts of a delivery, each by its own status; InvalidInput for anything but version 1.

    When a query gives nothing, or fails, Grafana sends an alert named DatasourceNoData or DatasourceError with the
    rule's name in the label `rulename`; the button "Test" sends one named TestAlert. They stay what they say, so that
    a rule for the fault does not match them. A delivery is named by its signature, which covers time and body.
    """
    root = read_object(body)
    if root.get("version") != "1":
        raise InvalidInput(
            f"This is not version 1 of Grafana's webhook: `version` is {shown_at(root, 'version')}.",
            "Use a contact point of the kind webhook, without a custom payload.",
        )
    return read_group(root, delivery_key=grafana_signature(headers))
