"""GetCommandInvocation, ListCommands and ListCommandInvocations."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.ssm.commands import NOT_STARTED, TERMINAL, Command, Invocation, Plugin, status_of
from lab.ssm.errors import Refusal
from lab.ssm.output import STDERR_MOST, STDOUT_MOST, cut, short
from lab.ssm.pages import page
from lab.ssm.sending import shown
from lab.ssm.state import State

TRACE_MOST = 2_500


def get_command_invocation(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """Show one invocation, or one step of it; a new one does not exist for a while."""
    command = state.commands.get(request["CommandId"])
    invocation = command.of(request["InstanceId"]) if command is not None else None
    if command is None or invocation is None or state.now() < command.sent + state.timing.consistency:
        raise Refusal("InvocationDoesNotExist")
    plugin = _plugin(invocation, request.get("PluginName"))
    whole = len(invocation.plugins) == 1
    ended = plugin.status in TERMINAL
    bucket = _urls(command, invocation, plugin)
    return {
        "CommandId": command.id,
        "InstanceId": invocation.instance,
        "Comment": command.request.get("Comment", ""),
        "DocumentName": command.document,
        "DocumentVersion": command.shown_version,
        "PluginName": plugin.name,
        "ResponseCode": plugin.code if ended else NOT_STARTED,
        "ExecutionStartDateTime": _iso(state, plugin.started),
        "ExecutionElapsedTime": _elapsed(plugin),
        "ExecutionEndDateTime": _iso(state, plugin.ended),
        "Status": invocation.status if whole else plugin.status,
        "StatusDetails": invocation.details if whole else plugin.details,
        "StandardOutputContent": cut(plugin.stdout, STDOUT_MOST) if ended else "",
        "StandardOutputUrl": bucket.get("StandardOutputUrl", ""),
        "StandardErrorContent": cut(plugin.stderr, STDERR_MOST) if ended else "",
        "StandardErrorUrl": bucket.get("StandardErrorUrl", ""),
        "CloudWatchOutputConfig": command.request.get("CloudWatchOutputConfig") or {"CloudWatchOutputEnabled": False},
    }


def list_commands(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """List commands, the newest first."""
    filters = _filters(request, stages=True)
    found = []
    for command in _listed(state, request):
        status, details = status_of(command)
        stage = "Complete" if command.ended else "Executing"
        invoked = request.get("InstanceId") is None or command.of(request["InstanceId"]) is not None
        if invoked and _fits(state, command, filters) and _is(filters, status, details, stage):
            found.append(command)
    chosen, token = page(state, request, found, key=lambda each: each.id)
    return {"Commands": [shown(state, each) for each in chosen], **token}


def list_command_invocations(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """List invocations, those of the newest command first; Details brings the steps with cut output."""
    filters = _filters(request, stages=False)
    found = []
    for command in _listed(state, request):
        if not _fits(state, command, filters):
            continue
        for invocation in command.invocations:
            wanted = request.get("InstanceId") in (None, invocation.instance)
            if wanted and _is(filters, invocation.status, invocation.details, ""):
                found.append((command, invocation))
    chosen, token = page(state, request, found, key=lambda each: f"{each[0].id} {each[1].instance}")
    details = bool(request.get("Details"))
    return {"CommandInvocations": [_shown(state, *each, details=details) for each in chosen], **token}


def _listed(state: State, request: dict[str, Any]) -> Iterator[Command]:
    """Yield the commands that lists know of, the newest first."""
    now, wanted = state.now(), request.get("CommandId")
    if wanted is not None:
        state.command(wanted)
    for command in reversed(state.commands.values()):
        if wanted in (None, command.id) and now >= command.sent + state.timing.listing:
            yield command


def _filters(request: dict[str, Any], *, stages: bool) -> dict[str, str]:
    filters = {each["key"]: each["value"] for each in request.get("Filters") or []}
    if "ExecutionStage" in filters and not stages:
        raise Refusal("InvalidFilterKey", "The ExecutionStage filter can't be used with ListCommandInvocations.")
    if request.get("InstanceId") is not None and filters.get("Status") == "Pending":
        raise Refusal("ValidationException", "A managed node ID can't be specified when the status is Pending.")
    for name in ("InvokedAfter", "InvokedBefore"):
        if name in filters:
            _moment(filters[name])
    return filters


def _fits(state: State, command: Command, filters: dict[str, str]) -> bool:
    sent = state.shown(command.sent)
    return (
        ("InvokedAfter" not in filters or sent >= _moment(filters["InvokedAfter"]))
        and ("InvokedBefore" not in filters or sent <= _moment(filters["InvokedBefore"]))
        and filters.get("DocumentName") in (None, command.document)
    )


def _is(filters: dict[str, str], status: str, details: str, stage: str) -> bool:
    return filters.get("Status") in (None, status, details) and filters.get("ExecutionStage") in (None, stage)


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as unreadable:
        raise Refusal("ValidationException", f"{text} is no moment like 2021-07-07T00:00:00Z.") from unreadable
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _shown(state: State, command: Command, invocation: Invocation, *, details: bool) -> dict[str, Any]:
    urls = _urls(command, invocation, invocation.plugins[0]) if len(invocation.plugins) == 1 else {}
    return {
        "CommandId": command.id,
        "InstanceId": invocation.instance,
        "InstanceName": invocation.name,
        "Comment": command.request.get("Comment", ""),
        "DocumentName": command.document,
        "DocumentVersion": command.shown_version,
        "RequestedDateTime": state.shown(command.sent),
        "Status": invocation.status,
        "StatusDetails": invocation.details,
        "TraceOutput": invocation.trace[:TRACE_MOST],
        "StandardOutputUrl": urls.get("StandardOutputUrl", ""),
        "StandardErrorUrl": urls.get("StandardErrorUrl", ""),
        "CommandPlugins": [_step(state, command, invocation, each) for each in invocation.plugins] if details else [],
        "ServiceRole": command.request.get("ServiceRoleArn", ""),
        "CloudWatchOutputConfig": command.request.get("CloudWatchOutputConfig") or {"CloudWatchOutputEnabled": False},
    }


def _step(state: State, command: Command, invocation: Invocation, plugin: Plugin) -> dict[str, Any]:
    times = {"ResponseStartDateTime": plugin.started, "ResponseFinishDateTime": plugin.ended}
    ended = plugin.status in TERMINAL
    return {
        "Name": plugin.name,
        "Status": plugin.status,
        "StatusDetails": plugin.details,
        "ResponseCode": plugin.code if ended else NOT_STARTED,
        "Output": short(plugin.stdout, plugin.stderr) if ended else "",
        **{name: state.shown(moment) for name, moment in times.items() if moment is not None},
        **_urls(command, invocation, plugin),
    }


def _plugin(invocation: Invocation, name: str | None) -> Plugin:
    if name is None and len(invocation.plugins) == 1:
        return invocation.plugins[0]
    for plugin in invocation.plugins:
        if plugin.name == name:
            return plugin
    raise Refusal("InvalidPluginName", "The document has several steps, or none of this name.")


def _urls(command: Command, invocation: Invocation, plugin: Plugin) -> dict[str, str]:
    """Name where the agent would have put the output; the stand-in has no S3."""
    bucket = command.request.get("OutputS3BucketName")
    if not bucket:
        return {}
    prefix = "/".join(filter(None, [command.request.get("OutputS3KeyPrefix", ""), command.id, invocation.instance]))
    base = f"https://s3.amazonaws.com/{bucket}/{prefix}/{plugin.name.replace(':', '')}"
    return {"StandardOutputUrl": f"{base}/stdout", "StandardErrorUrl": f"{base}/stderr"}


def _iso(state: State, moment: float | None) -> str:
    if moment is None:
        return ""
    text = datetime.fromtimestamp(state.shown(moment), UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _elapsed(plugin: Plugin) -> str:
    if plugin.started is None or plugin.ended is None:
        return ""
    seconds = timedelta(seconds=plugin.ended - plugin.started).total_seconds()
    return f"PT{seconds:.3f}".rstrip("0").rstrip(".") + "S"
