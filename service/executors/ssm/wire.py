"""How an envelope travels as one `commands` line of a shell document. Pure.

The envelope's bytes are those of every transport, compressed and in base64: Run Command replaces what stands in double
braces before the agent sees it (`{{ssm:NAME}}` becomes the value of a stored parameter), also inside a script. Only
letters, digits and our own constant words are on the wire.
"""

import base64
import gzip
from collections.abc import Mapping

from service.domain.errors import BrokenRule
from service.domain.node import Endpoint
from service.executors import envelope

#: A longer line is not sent. SSM refuses documents beyond 64 KB (API reference, MaxDocumentSizeExceeded).
MOST_CHARACTERS = 60_000
#: SSM keeps this much of the standard output (API reference, GetCommandInvocation): the frames must fit into it.
ANSWER_CHARACTERS = 24_000
#: What we let the envelope write; the rest is for a line end, and for an agent that adds one.
ANSWER_LIMIT = ANSWER_CHARACTERS - 500
#: The agent sets it for every script (amazon-ssm-agent, agent/executers/executers.go).
_INSTANCE = "AWS_SSM_INSTANCE_ID"
NO_INSTANCE = f"unstick: the agent does not set {_INSTANCE} to an instance that this was sent to"

_PROGRAMS = (
    "for program in base64 gzip; do "
    "command -v $program >/dev/null 2>&1 || { "
    'printf \'\\nunstick %s {"frame":"state","state":"not_started","reason":"no_bash","missing":"%s"}\\n\' '
    '"$id" $program; exit 0; }; done; '
)


def for_one(data: bytes, *, attempt_id: str, endpoint: Endpoint) -> str:
    """Return the line that gives one machine its envelope. It always ends with 0: its frames tell what happened."""
    # The agent takes 194 for a reboot and 137 for a timeout of its own, whatever they meant.
    return _safe(
        f"id={attempt_id}; {_PROGRAMS}{_unpacked(data)} | ({envelope.command_line(endpoint)}); exit 0",
    )


def for_many(data: bytes, *, attempts: Mapping[str, str], endpoint: Endpoint) -> str:
    """Return the line that gives each instance its part of `envelope.for_starts`; ids of attempts by instance."""
    choice = " ".join(f"{instance}) id={attempt_id};;" for instance, attempt_id in attempts.items())
    return _safe(
        f"case ${{{_INSTANCE}:-}} in {choice} *) echo '{NO_INSTANCE}'; exit 0;; esac; {_PROGRAMS}"
        f'{{ printf \'# %s\\nmachine=%s\\n\' "$id" "${_INSTANCE}"; {_unpacked(data)}; }}'
        f" | ({envelope.command_line(endpoint)}); exit 0",
    )


def _unpacked(data: bytes) -> str:
    # printf is part of the shell: no list of arguments that could be too long, or be seen.
    packed = base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
    return f"printf %s '{packed}' | base64 -d | gzip -dc"


def _safe(line: str) -> str:
    if "{{" in line or "\n" in line:
        raise BrokenRule("Double braces or a line end would be on the wire to SSM.")
    return line
