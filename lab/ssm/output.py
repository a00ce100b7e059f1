"""What is left of a script's output when the agent and the service have cut it.

The rules are those of aws/amazon-ssm-agent: pluginutil.StringPrefix and iohandler.TruncateOutput. They count bytes, so
a character of several bytes may be cut, and what is left of it becomes U+FFFD on its way through JSON.
"""

STDOUT_MOST = 24_000
STDERR_MOST = 8_000
BOTH_MOST = 2_500
SUFFIX = b"--output truncated--"
ERROR_TITLE = b"\n----------ERROR-------\n"
OUTPUT_CUT = b"\n---Output truncated---"
ERROR_CUT = b"\n---Error truncated----"


def cut(data: bytes, most: int) -> str:
    """Keep the head of one stream; what is as long as `most`, in bytes, ends in the agent's suffix."""
    kept = data if len(data) < most else data[: most - len(SUFFIX)] + SUFFIX
    return kept.decode(errors="replace")


def short(stdout: bytes, stderr: bytes) -> str:
    """Put both streams into the 2,500 bytes of a list call."""
    title = ERROR_TITLE if stderr else b""
    space = BOTH_MOST - len(title)
    half = space // 2
    if len(stdout) + len(stderr) < space:
        kept = stdout + title + stderr
    elif len(stdout) > half and len(stderr) > half:
        each = (space - len(ERROR_CUT) - len(OUTPUT_CUT)) // 2
        kept = stdout[:each] + OUTPUT_CUT + title + stderr[:each] + ERROR_CUT
    elif len(stdout) <= half:
        kept = stdout + title + stderr[: space - len(ERROR_CUT) - len(stdout)] + ERROR_CUT
    else:
        kept = stdout[: space - len(OUTPUT_CUT) - len(stderr)] + OUTPUT_CUT + title + stderr
    return kept.decode(errors="replace")
