"""Run the tests marked `proof` and write what they showed into docs/proof.md.

A test names its proof with `record_property("proof", "...")` and its count with `record_property("count", 1000)`;
without them its own name and 1 stand in the table. Rows of proofs that did not run are kept, each with its own date.
"""

import os
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

PAGE = Path("docs/proof.md")
HEAD = """# Proof

The counts that an ordinary run does not repeat. Written by `make proof`; each row tells when it was last run and by
which command. A test that was skipped has proven nothing and says so.

| proof | count | result | date (UTC) | kernel | command |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One proof, as it stands in the table."""

    name: str
    count: str
    result: str
    date: str
    kernel: str
    command: str

    def line(self) -> str:
        """Return the row as Markdown."""
        cells = (self.name, self.count, self.result, self.date, self.kernel, f"`{self.command}`")
        return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def parse_page(text: str) -> dict[str, Row]:
    """Return the rows of an earlier page by their names."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and re.fullmatch(r"\d{4}-\d\d-\d\d", cells[3]):
            rows[cells[0]] = Row(cells[0], cells[1], cells[2], cells[3], cells[4], cells[5].strip("`"))
    return rows


def parse_report(text: str, *, date: str, kernel: str, command: str) -> dict[str, Row]:
    """Return a row for each test of a junit report."""
    rows = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        if case.get("name") is None:
            continue  # a run that was interrupted leaves its last test without a name and without a result
        told = {item.get("name"): item.get("value", "") for item in case.iter("property")}
        name = told.get("proof") or case.get("name", "").removeprefix("test_").replace("_", " ")
        outcome = {child.tag for child in case}
        result = "failed" if outcome & {"failure", "error"} else "not run" if "skipped" in outcome else "passed"
        rows[name] = Row(name, told.get("count") or "1", result, date, kernel, command)
    return rows


def main(arguments: list[str]) -> int:
    """Run pytest with the arguments added, write the page, and return pytest's exit code (0 when nothing is marked)."""
    environment = {"HYPOTHESIS_PROFILE": "proof", "UNSTICK_NO_SKIPS": "1" if os.geteuid() == 0 else "0", **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "proof", f"--junitxml={report}", *arguments]
        code = subprocess.run(command, env=environment, check=False).returncode
        if not report.exists():
            return code
        told = "make proof" + (f' ONLY="{" ".join(arguments)}"' if arguments else "")
        now = f"{datetime.now(UTC):%Y-%m-%d}"
        new = parse_report(
            report.read_text(encoding="utf-8"), date=now, kernel=platform.release().partition("-")[0], command=told
        )
    old = parse_page(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    rows = sorted((old | new).values(), key=lambda row: row.name)
    PAGE.write_text(HEAD + "".join(row.line() + "\n" for row in rows), encoding="utf-8")
    print(f"{len(new)} proofs run; {PAGE} written")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
