"""Asks shellcheck about scripts, where it is installed."""

import json
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from service.app.lint import ShellCheck, ShellRemark
from service.domain.errors import Unavailable

# A prelude of shared functions has some that this script does not call, and lines that are reached
# only from these.
_NOT_ASKED = "SC2317,SC2329"
_SECONDS = 300


def find_shellcheck() -> ShellCheck | None:
    """Return a checker that runs shellcheck, or None where it is not installed."""
    program = shutil.which("shellcheck")
    return None if program is None else _Program(program)


class _Program:
    """Runs one shellcheck over many scripts; fulfils ShellCheck."""

    def __init__(self, program: str) -> None:
        self._program = program

    def __call__(self, scripts: Sequence[str]) -> Sequence[Sequence[ShellRemark]]:
        """Return the remarks on each script; Unavailable when shellcheck itself fails."""
        with tempfile.TemporaryDirectory(prefix="unstick-lint-") as folder:
            paths = {script: Path(folder) / f"{number}.sh" for number, script in enumerate(dict.fromkeys(scripts))}
            for script, path in paths.items():
                path.write_text(script, encoding="utf-8")
            remarks = self._ask(list(paths.values())) if paths else {}
        return [remarks.get(str(paths[script]), []) for script in scripts]

    def _ask(self, paths: Sequence[Path]) -> dict[str, list[ShellRemark]]:
        command = [self._program, "--norc", "--shell=bash", f"--exclude={_NOT_ASKED}", "--format=json1"]
        answer = subprocess.run([*command, *map(str, paths)], capture_output=True, timeout=_SECONDS, check=False)
        try:
            comments = json.loads(answer.stdout)["comments"]
        except (ValueError, KeyError) as error:
            told = answer.stderr.decode(errors="replace").strip()
            raise Unavailable(f"shellcheck failed: {told}.", "Run it by hand, or remove it from PATH.") from error
        remarks: dict[str, list[ShellRemark]] = defaultdict(list)
        for comment in comments:
            text = f"SC{comment['code']}: {comment['message']}"
            remarks[comment["file"]].append(ShellRemark(comment["line"], text))
        return remarks
