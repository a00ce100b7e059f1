"""SendCommand and CancelCommand."""

import json
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from lab.ssm.commands import Command, Invocation, Plugin, status_of
from lab.ssm.documents import LARGEST, Document, Version
from lab.ssm.errors import Refusal
from lab.ssm.instance import Instance
from lab.ssm.parameters import fill, given
from lab.ssm.player import timeout_seconds
from lab.ssm.state import State

DEFAULT_TIMEOUT = 3600
TARGET_VALUES = 50
SHELL_PLATFORMS = ("Linux", "MacOS")


def send_command(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """Accept a command, or refuse it for what is wrong with the request as it stands."""
    instances = _targets(state, request)
    document = state.documents.find(request["DocumentName"])
    version = _pinned(document, request)
    values = given(version.parameters, request.get("Parameters") or {}, state.hub.stored)
    steps = [fill(dict(step.inputs), values) for step in version.steps]
    if len(json.dumps(steps).encode()) > LARGEST:
        raise Refusal("MaxDocumentSizeExceeded", "The size limit of a document is 64 KB.")
    _notifications(request)
    now = state.now()
    command = Command(
        id=str(uuid.uuid4()),
        document=document.name,
        version=version,
        shown_version=request.get("DocumentVersion", "$DEFAULT"),
        sent=now,
        timeout=request.get("TimeoutSeconds", DEFAULT_TIMEOUT),
        steps=steps,
        execution_seconds=sum(timeout_seconds(step.get("timeoutSeconds")) for step in steps),
        invocations=[_invocation(state, each, version, now) for each in instances],
        request=request,
        seen=(now, state.hub.clock.script()),
    )
    duplicates = state.hub.faults.duplicates
    command.duplicates_left = {each.id: duplicates for each in instances} if duplicates else {}
    state.remember(command)
    return {"Command": shown(state, command)}


def cancel_command(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """Ask agents to stop; nothing says whether they will."""
    command = state.command(request["CommandId"])
    wanted = request.get("InstanceIds") or []
    _no_duplicates(wanted)
    for instance in wanted:
        if command.of(instance) is None:
            raise Refusal("InvalidInstanceId", f"{instance} is not a target of this command.")
    command.cancelled = True
    for invocation in command.invocations:
        if not invocation.ended and (not wanted or invocation.instance in wanted) and invocation.cancel_due is None:
            invocation.cancel_due = state.now() + state.timing.cancel
            if invocation.delivered is None:
                invocation.become("Cancelled")
            else:
                invocation.become("Cancelling")
    state.lock.notify_all()
    return {}


def shown(state: State, command: Command) -> dict[str, Any]:
    """Give a command as the API shows it."""
    status, details = status_of(command)
    if not command.invocations and state.now() < command.sent + state.timing.delivery:
        status = details = "Pending"
    echoed = ("OutputS3Region", "OutputS3BucketName", "OutputS3KeyPrefix", "NotificationConfig", "AlarmConfiguration")
    request = command.request
    return {
        "CommandId": command.id,
        "DocumentName": command.document,
        "DocumentVersion": command.shown_version,
        "Comment": request.get("Comment", ""),
        "ExpiresAfter": state.shown(command.expires),
        "Parameters": request.get("Parameters") or {},
        "InstanceIds": request.get("InstanceIds") or [],
        "Targets": request.get("Targets") or [],
        "RequestedDateTime": state.shown(command.sent),
        "Status": status,
        "StatusDetails": details,
        "MaxConcurrency": request.get("MaxConcurrency", "50"),
        "MaxErrors": request.get("MaxErrors", "0"),
        "TargetCount": len(command.invocations),
        "CompletedCount": sum(each.ended for each in command.invocations),
        "ErrorCount": command.errors,
        "DeliveryTimedOutCount": command.count("DeliveryTimedOut"),
        "ServiceRole": request.get("ServiceRoleArn", ""),
        "CloudWatchOutputConfig": request.get("CloudWatchOutputConfig") or {"CloudWatchOutputEnabled": False},
        "TimeoutSeconds": command.timeout,
        **{name: request[name] for name in echoed if request.get(name)},
    }


def _targets(state: State, request: dict[str, Any]) -> list[Instance]:
    """Find the instances of a request, and refuse those that cannot be named."""
    ids, targets = request.get("InstanceIds") or [], request.get("Targets") or []
    if bool(ids) == bool(targets):
        raise Refusal("ValidationException", "Either InstanceIds or Targets must be given, and not both.")
    if targets:
        for target in targets:
            if not target.get("Key") or len(target.get("Values") or []) > TARGET_VALUES:
                raise Refusal("ValidationException", "A target has no key, or too many values.")
        return [each for each in state.instances.values() if all(_matches(each, target) for target in targets)]
    _no_duplicates(ids)
    found = [state.instances.get(each) for each in ids]
    known = [each for each in found if each is not None and each.state != "Terminated"]
    if len(known) < len(ids):
        missing = sorted(set(ids) - {each.id for each in known})
        raise Refusal("InvalidInstanceId", f"Instances {missing} not in a valid state for account {state.account}")
    if any(each.platform not in SHELL_PLATFORMS for each in known):
        raise Refusal("UnsupportedPlatformType", "The document does not support the platform type of an instance.")
    return known


def _matches(instance: Instance, target: dict[str, Any]) -> bool:
    key, values = target["Key"], target.get("Values") or []
    match key.partition(":"):
        case ("tag", ":", name):
            return instance.tags.get(name) in values
        case ("tag-key", _, _):
            return any(value in instance.tags for value in values)
        case (word, "", "") if word.lower() == "instanceids":
            return instance.id in values
    raise Refusal("ValidationException", f"Targets by {key} are not known to the stand-in.")


def _no_duplicates(ids: Sequence[str]) -> None:
    twice = [each for each, count in Counter(ids).items() if count > 1]
    if twice:
        raise Refusal("DuplicateInstanceId", f"You can't specify a managed node ID in more than one target: {twice}")


def _pinned(document: Document, request: dict[str, Any]) -> Version:
    """Give the version that the request wants; its text must have the hash that the request names."""
    version = document.version(request.get("DocumentVersion"))
    wanted = request.get("DocumentHash")
    if wanted is not None and wanted.lower() != version.hash(request.get("DocumentHashType", "Sha256")):
        raise Refusal("InvalidDocument", "The document hash does not match the document's content.")
    return version


def _notifications(request: dict[str, Any]) -> None:
    config = request.get("NotificationConfig") or {}
    if config and not str(config.get("NotificationArn", "")).startswith("arn:aws:sns:"):
        raise Refusal("InvalidNotificationConfig", "NotificationArn is no ARN of an SNS topic.")
    if config and not request.get("ServiceRoleArn"):
        raise Refusal("InvalidRole", "The role name can't be empty when notifications are wanted.")


def _invocation(state: State, instance: Instance, version: Version, now: float) -> Invocation:
    plugins = [Plugin(step.name) for step in version.steps]
    return Invocation(instance.id, plugins, next_try=now + state.timing.delivery, name=instance.name)
