"""Bodies of scripts that would end otherwise under dash or without strictness, and what they come to by every way."""

from service.domain.script import render

#: A body as it stands in a runbook, its exit code and what it prints.
BODIES = [
    # dash knows no pipefail: "Illegal option -o pipefail", and the script would end there with 2.
    ("set -euo pipefail\necho one", 0, b"one\n"),
    # Without -e the last line alone would decide.
    ("false\necho done", 1, b""),
    # Without pipefail the last of a pipe alone would decide.
    ("echo before\nfalse | true\necho done", 1, b"before\n"),
    ("echo \"$nobody_set_it\"\necho done", 1, b""),
    ("[[ gpu-01 == gpu-* ]] && echo bash", 0, b"bash\n"),
]  # fmt: skip


def rendered(body: str) -> str:
    """Return the script that is sent for a body."""
    return render(prelude="", body=body, environment={})
