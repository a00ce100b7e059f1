"""The command line: `unstick COMMAND`.

Nothing large is imported here: whoever interrupts the first second of a command hears nothing of what was being loaded.
"""

import sys
from importlib import import_module
from typing import Final

#: What a shell returns for a command that SIGINT has ended.
INTERRUPTED: Final = 130


def main() -> int:
    """Run the command that was typed and return its exit code; 130 when it was interrupted before it could say more."""
    try:
        code: int = import_module("service.cli.program").run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
    return code
