"""A client for the stand-in, and the few waits that its tests need."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from lab.process import wait_until
from lab.ssm import Instance, SsmServer

FIRST = "i-0123456789abcdef0"
SECOND = "i-0123456789abcdef1"
OVER = ("Success", "Failed", "TimedOut", "Cancelled")
SECONDS = 180.0  # a node that goes down may wait a minute and a half for one of its units
ONCE = threading.Lock()  # boto3.client is not safe in several threads


@dataclass(frozen=True)
class Ssm:
    """A server with a client that sends each call once."""

    server: SsmServer
    client: Any
    #: Until when a command is delivered, in AWS's seconds: where they pass by themselves, none is too late.
    delivery: int = 36_000

    def send(
        self,
        *lines: str,
        to: tuple[str, ...] = (FIRST,),
        seconds: int = 60,
        document: str = "AWS-RunShellScript",
        **more: Any,
    ) -> str:
        """Send a script to instances, or to the Targets given; give the CommandId."""
        parameters = {"commands": list(lines), "executionTimeout": [str(seconds)]}
        request = {"DocumentName": document, "TimeoutSeconds": self.delivery, "Parameters": parameters, **more}
        if "Targets" not in request:
            request["InstanceIds"] = list(to)
        return str(self.client.send_command(**request)["Command"]["CommandId"])

    def see(self, command: str, instance: str = FIRST, **more: Any) -> dict[str, Any]:
        """Look once; Status is `not yet` while the invocation does not exist."""
        request = {"CommandId": command, "InstanceId": instance, **more}
        try:
            found: dict[str, Any] = self.client.get_command_invocation(**request)
        except self.client.exceptions.InvocationDoesNotExist:
            return {"Status": "not yet", "StatusDetails": "not yet"}
        return found

    def until(self, command: str, *statuses: str, instance: str = FIRST, **more: Any) -> dict[str, Any]:
        """Look until one of the statuses is there, or the end."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.update(self.see(command, instance, **more))
            return seen["Status"] in (statuses or OVER)

        wait_until(there, f"{command} on {instance} is {statuses or OVER}", seconds=SECONDS)
        return seen

    def details(self, command: str, instance: str = FIRST) -> str:
        """Give the status as `Status/StatusDetails`, now."""
        seen = self.see(command, instance)
        return f"{seen['Status']}/{seen['StatusDetails']}"

    def command(self, command: str) -> dict[str, Any]:
        """Give the command as the list has it, once it is listed."""
        rows: list[dict[str, Any]] = []

        def listed() -> bool:
            rows[:] = self.client.list_commands(CommandId=command)["Commands"]
            return bool(rows)

        wait_until(listed, f"{command} is listed", seconds=SECONDS)
        return rows[0]

    def refused(self, call: str, **request: Any) -> tuple[str, int]:
        """Give the code and the HTTP status of the error that a call ends in."""
        try:
            getattr(self.client, call)(**request)
        except ClientError as refusal:
            answer: Any = refusal.response
            return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]
        raise AssertionError(f"{call} was not refused")


@contextmanager
def running(*instances: Instance, **named: Any) -> Iterator[Ssm]:
    """Start a server, by default with one instance that is this machine itself, and a client."""
    with SsmServer(**{"pace": 20, **named}) as server:
        for instance in instances or (Instance(id=FIRST, name="gpu-01"),):
            server.add(instance)
        client = make_client(server.environment())
        yield Ssm(server, client, **({} if named.get("pace", 1) else {"delivery": 30}))
        client.close()


def make_client(found: Mapping[str, str], **named: Any) -> Any:
    """Make a client of boto3 for the server that an environment names; by default it never tries again."""
    config = Config(**{"retries": {"total_max_attempts": 1}, "connect_timeout": 5, "read_timeout": 30, **named})
    with ONCE:
        return boto3.client(
            "ssm",
            endpoint_url=found["AWS_ENDPOINT_URL_SSM"],
            aws_access_key_id=found["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=found["AWS_SECRET_ACCESS_KEY"],
            region_name=found["AWS_DEFAULT_REGION"],
            config=config,
        )


def written(path: Path, lines: int = 1) -> None:
    """Wait until a script has written this many lines."""
    wait_until(lambda: path.exists() and len(path.read_text().splitlines()) >= lines, f"{path} has {lines} lines")
