"""From an operation's name and its parameters to the answer."""

from collections.abc import Callable
from typing import Any

from lab.ssm import inventory, reading, sending
from lab.ssm.errors import Refusal
from lab.ssm.shapes import OPERATIONS, check_answer, check_request
from lab.ssm.state import State

Operation = Callable[[State, dict[str, Any]], dict[str, Any]]
TABLE: dict[str, Operation] = {
    "SendCommand": sending.send_command,
    "CancelCommand": sending.cancel_command,
    "GetCommandInvocation": reading.get_command_invocation,
    "ListCommands": reading.list_commands,
    "ListCommandInvocations": reading.list_command_invocations,
    "DescribeInstanceInformation": inventory.describe_instance_information,
    "DescribeDocument": inventory.describe_document,
    "GetDocument": inventory.get_document,
    "CreateDocument": inventory.create_document,
}


def answer(state: State, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Check the request, do it, check the answer; Refusal is what the client gets instead."""
    if operation not in OPERATIONS:
        raise Refusal("UnknownOperationException", f"The stand-in has no {operation}.")
    check_request(operation, parameters)
    with state.lock:
        given = TABLE[operation](state, parameters)
        try:
            check_answer(operation, given)
        except ValueError as broken:
            raise Refusal("InternalServerError", str(broken), status=500) from broken
    return given
