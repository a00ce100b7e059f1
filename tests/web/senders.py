"""Signs bodies as each kind of sender does, by its documentation and without our code."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from tests.triggers import sns_messages

SECRET = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"

Headers = dict[str, str]
Signed = Callable[[bytes, str, datetime], Headers]


def standard_secret(secret: str) -> str:
    """Return the secret in the form of Standard Webhooks."""
    return "whsec_" + base64.b64encode(secret.encode()).decode()


def by_grafana(body: bytes, secret: str, at: datetime) -> Headers:
    """Sign `<seconds>:<body>`."""
    seconds = str(int(at.timestamp()))
    signature = hmac.new(secret.encode(), seconds.encode() + b":" + body, hashlib.sha256).hexdigest()
    return {"X-Grafana-Alerting-Signature": signature, "X-Grafana-Alerting-Timestamp": seconds}


def by_pagerduty(body: bytes, secret: str, at: datetime) -> Headers:
    """Sign the body."""
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-PagerDuty-Signature": f"v1={'0' * 64},v1={signature}"}


def by_standard(body: bytes, secret: str, at: datetime) -> Headers:
    """Sign `<id>.<seconds>.<body>`."""
    seconds = str(int(at.timestamp()))
    name = "msg_" + hashlib.sha256(body).hexdigest()[:8]
    signed = hmac.new(secret.encode(), f"{name}.{seconds}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": name,
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }


def alertmanager(*, name: str = "GpuGhostVram", node: str = "gpu-01:9400", starts_at: str, **more: Any) -> bytes:
    """Return a group with one firing alert."""
    alert = {
        "status": "firing",
        "labels": {"alertname": name, "instance": node},
        "annotations": {},
        "startsAt": starts_at,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus.test/graph",
        "fingerprint": hashlib.sha256(f"{name}{node}".encode()).hexdigest()[:16],
    }
    return json.dumps({"version": "4", "status": "firing", "alerts": [alert], "truncatedAlerts": 0, **more}).encode()


def grafana(*, starts_at: str) -> bytes:
    """Return a group of Grafana with one firing alert."""
    group = json.loads(alertmanager(starts_at=starts_at))
    return json.dumps({**group, "version": "1", "orgId": 1, "title": "x", "state": "alerting"}).encode()


def pagerduty(*, starts_at: str, name: str = "01DEN4HPBQAAAG05V5QQYBRZMF") -> bytes:
    """Return the event of an incident that was triggered."""
    incident = {"id": "PGR0VU2", "type": "incident", "title": "GpuGhostVram", "created_at": starts_at}
    event = {"id": name, "event_type": "incident.triggered", "resource_type": "incident", "occurred_at": starts_at}
    return json.dumps({"event": {**event, "data": incident}}).encode()


def generic(*, starts_at: str, machine: str = "gpu-01") -> bytes:
    """Return a report in a form of its own."""
    fault = {"id": "f1", "open": True, "since": starts_at, "fault": "reader hangs", "machine": machine}
    return json.dumps({"faults": [fault]}).encode()


def cloudwatch(*, at: datetime, name: str = "00000000-0000-4000-8000-000000000002") -> bytes:
    """Return an alarm of CloudWatch in a signed message of SNS."""
    alarm = {
        "AlarmName": "gpu-vram",
        "AlarmArn": "arn:aws:cloudwatch:us-east-1:111122223333:alarm:gpu-vram",
        "NewStateValue": "ALARM",
        "OldStateValue": "OK",
        "StateChangeTime": f"{at:%Y-%m-%dT%H:%M:%S.000+0000}",
    }
    fields = {"MessageId": name, "Message": json.dumps(alarm), "Timestamp": f"{at:%Y-%m-%dT%H:%M:%S.000Z}"}
    return sns_messages.signed(sns_messages.message(**fields))
