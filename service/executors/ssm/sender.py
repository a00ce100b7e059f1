"""Sends commands, each once. What AWS has provably not taken may be sent again; what it may have taken never is."""

import random
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from service.domain.script import NotStarted
from service.domain.shown_text import shown_moment
from service.executors.not_sent import NotSent
from service.executors.ssm.command import Accepted, Command
from service.executors.ssm.faults import Fault, Proof
from service.executors.ssm.gateway import Gateway
from service.executors.ssm.tempo import Tempo

#: So far back a command is looked for whose answer was lost: our clock may be ahead of that of AWS.
_LOOK_BACK = timedelta(minutes=2)


class MayHaveArrived(Exception):
    """The answer to a command was lost: SSM may have taken it. The text says what happened."""


class Sender:
    """Sends the commands of one place, one after the other where AWS throttles. Safe for many threads."""

    def __init__(self, gateway: Gateway, tempo: Tempo, *, closing: threading.Event) -> None:
        """Take the way to SSM; `closing` ends every wait."""
        self._gateway = gateway
        self._tempo = tempo
        self._closing = closing
        self._throttled = threading.Lock()

    def send(self, command: Command) -> Accepted:
        """Return what SSM says of a command that it has taken; NotSent when it has not, MayHaveArrived when unknown."""
        try:
            return self._send(command)
        except Fault as fault:
            if fault.proof is not Proof.THROTTLED:
                raise self._ended(command, fault) from fault
        return self._send_when_calm(command)

    def cancel(self, accepted: Accepted, *, instance: str) -> None:
        """Ask SSM not to deliver a command any more. Whether it did is not known, and not asked: `settle` tells."""
        with suppress(Fault):
            self._gateway.act("cancel_command", CommandId=accepted.command_id, InstanceIds=[instance])

    def _send_when_calm(self, command: Command) -> Accepted:
        """Send again what AWS denied because of its rate, until it takes it; one thread at a time tries."""
        until = time.monotonic() + self._tempo.of(self._tempo.send_for)
        while True:
            with self._throttled:
                pause = self._tempo.of(self._tempo.throttled_send) * random.uniform(0.5, 1.0)  # noqa: S311
                if self._closing.wait(pause):
                    raise NotSent(NotStarted.UNREACHABLE, _not_started(command, "the service is stopping"))
                try:
                    return self._send(command)
                except Fault as fault:
                    if fault.proof is not Proof.THROTTLED or time.monotonic() >= until:
                        raise self._ended(command, fault) from fault

    def _send(self, command: Command) -> Accepted:
        asked_at = time.monotonic()
        answer = self._gateway.act("send_command", **command.parameters())
        said = answer.get("Command")
        command_id = said.get("CommandId") if isinstance(said, dict) else None
        if not isinstance(command_id, str):
            raise Fault.lost("SSM answered without the id of a command")
        requested_at = said.get("RequestedDateTime") if isinstance(said, dict) else None
        if not isinstance(requested_at, datetime):
            requested_at = datetime.now(UTC)
        return Accepted(command_id, requested_at, asked_at)

    def _ended(self, command: Command, fault: Fault) -> NotSent | MayHaveArrived:
        if fault.proof is Proof.NONE:
            found = self._find(command)
            known = f"; SSM has it as command {found}" if found else ""
            return MayHaveArrived(f"{fault.reason}{known}")
        seen = self._seen(command) if fault.name == "InvalidInstanceId" and len(command.endpoints) == 1 else ""
        refusal = NotSent(fault.cause, _not_started(command, f"{fault.reason}{seen}"), fault.way_out)
        return RefusedOfOne(refusal) if fault.of_instance else refusal

    def _find(self, command: Command) -> str | None:
        """Return the id under which SSM has a command whose answer was lost, for the record only.

        It decides nothing: what is not listed may be listed a moment later. One request, on the client that does not
        try again, since whoever waits for this has a node to ask.
        """
        since = (datetime.now(UTC) - _LOOK_BACK).strftime("%Y-%m-%dT%H:%M:%SZ")
        with suppress(Fault):
            filters = [{"key": "InvokedAfter", "value": since}]
            answer = self._gateway.act("list_commands", Filters=filters, MaxResults=50)
            for one in answer.get("Commands", ()):
                if one.get("Comment") == command.comment:
                    return str(one.get("CommandId"))
        return None

    def _seen(self, command: Command) -> str:
        """Return what SSM knows of an instance to which it cannot send."""
        ids = [{"Key": "InstanceIds", "Values": [command.endpoints[0].address]}]
        try:
            rows = self._gateway.look("describe_instance_information", Filters=ids).get("InstanceInformationList", ())
        except Fault:
            return ""
        if not rows:
            return "; SSM does not list it at all"
        last = rows[0].get("LastPingDateTime")
        when = f", last heard of {shown_moment(last)}" if isinstance(last, datetime) else ""
        return f"; SSM lists it as {rows[0].get('PingStatus')}{when}"


class RefusedOfOne(NotSent):
    """A command was refused, perhaps because of one instance among several."""

    def __init__(self, refusal: NotSent) -> None:
        """Say the same as the refusal."""
        super().__init__(refusal.cause, refusal.reason, refusal.way_out)


def _not_started(command: Command, why: str) -> str:
    names = ", ".join(endpoint.name for endpoint in command.endpoints[:3])
    more = f" and {len(command.endpoints) - 3} more" if len(command.endpoints) > 3 else ""
    return f"Nothing was started on {names}{more}: {why}."
