"""Refuse files and functions that have grown too long to be read at once: 400 and 40 lines, docstrings counted."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 400
FUNCTION_LINES = 40
FOLDERS = ("service", "lab", "bench", "tools")


def too_long(file: Path) -> Iterator[str]:
    """Yield one line for the file itself and for each function in it that is over its limit."""
    text = file.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines >= FILE_LINES:
        yield f"{file}: {lines} lines; a file does one thing in under {FILE_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length >= FUNCTION_LINES:
                yield f"{file}:{node.lineno}: {node.name} has {length} lines; a function has under {FUNCTION_LINES}"


def main() -> int:
    """Print every offender; return 1 when there is one."""
    files = (file for folder in FOLDERS for file in sorted(Path(folder).rglob("*.py")))
    found = [line for file in files for line in too_long(file)]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
