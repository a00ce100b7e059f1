"""Break the program on purpose, one place at a time, and see that a test notices.

`python tools/mutants.py [WORD]` plays the mutants whose name has the word; each is one or a few exact replacements in a
copy of the tracked files. A replacement that does not match exactly once is an error, and so is a test that fails
without any mutant: then nothing would be proven.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: It only stops a hang.
PATIENCE_SECONDS = 900
_FAILED = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Edit:
    """One exact replacement in one file."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A defect, and the tests that must notice it."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


class MutantError(Exception):
    """The mutant proves nothing; the text says why."""


ENVELOPE = "service/executors/node_runner.sh"
MIGRATION = "migrations/versions/0001_first_tables.py"
DOOR = "tests/executors/test_envelope_door.py"
NODE_RUNS = "tests/store/test_node_runs.py"
AUDIT = "tests/store/test_audit.py"

MUTANTS = (
    Mutant(
        "the intent is recorded after the dispatch",
        (
            Edit(
                "service/app/send_script.py",
                "    if not service.store.write(intend):\n        return\n"
                "    _start(driven, replace(history, node_run=node_run), attempt=attempt, resend=False)\n",
                "    _start(driven, replace(history, node_run=node_run), attempt=attempt, resend=False)\n"
                "    service.store.write(intend)\n",
            ),
        ),
        ("tests/app/test_guard.py",),
    ),
    Mutant(
        "a second order that does not arrive proves that nothing ran",
        (
            Edit(
                "service/app/send_script.py",
                "    if not resend or report.state",
                "    if report.state",
            ),
            Edit("service/app/send_script.py", "report.not_started in _LOOKED_FOR:", "report.not_started:"),
        ),
        ("tests/app/test_resend.py",),
    ),
    Mutant(
        "settle leaves no void",
        (
            Edit(
                ENVELOPE,
                '  local said=\'\'\n  if [ ! -d "$dir" ] && said=$(exec mkdir -m 700 "$dir" 2>&1); then\n'
                '    close_door\n  fi\n  [ -d "$dir" ] || refuse_folder "$said"\n',
                '  [ -d "$dir" ] || answer not_started void\n',
            ),
        ),
        (f"{DOOR}::test_a_start_that_comes_after_a_settle_finds_the_door_closed",),
    ),
    Mutant(
        "settle leaves the door of a dead start open",
        (Edit(ENVELOPE, "  close_door || true\n  stand\n", "  stands=void\n"),),
        (f"{DOOR}::test_a_settle_closes_the_door_of_a_start_that_died_on_its_way",),
    ),
    Mutant(
        "the boot_id of an order is not compared",
        (Edit(ENVELOPE, "  local said name\n  judge_boot\n", "  local said name\n"),),
        (f"{DOOR}::test_an_order_for_another_boot_is_not_started",),
    ),
    Mutant(
        "the boot_id of a settle is not compared",
        (
            Edit(
                ENVELOPE,
                'find_attempt() {\n  if [ -n "$expected_boot" ]',
                'find_attempt() {\n  if false && [ -n "$expected_boot" ]',
            ),
        ),
        (f"{DOOR}::test_an_attempt_of_another_boot_is_unknown_and_leaves_no_mark",),
    ),
    Mutant(
        "not-after is ignored",
        (Edit(ENVELOPE, "  ((now <= not_after)) || answer not_started too_late\n", ""),),
        (f"{DOOR}::test_an_order_that_comes_too_late_is_not_started",),
    ),
    Mutant(
        "a start does not see that its door was closed",
        (Edit(ENVELOPE, '  { : >"$dir/door"; } 2>/dev/null || exit 0\n', '  : >|"$dir/door"\n'),),
        ("tests/executors/test_envelope_race.py",),
    ),
    Mutant(
        "a second start of an attempt starts it again",
        (
            Edit(ENVELOPE, '  { : >"$dir/door"; } 2>/dev/null || exit 0\n', '  : >|"$dir/door"\n'),
            Edit(ENVELOPE, '  if ! said=$(exec mkdir -m 700 "$dir" 2>&1); then\n', '  if ! mkdir -p "$dir"; then\n'),
        ),
        ("tests/executors/test_envelope_start.py::test_a_start_that_comes_again_attaches_to_the_first",),
    ),
    Mutant(
        "an answer does not wait for who keeps a stream",
        (
            Edit(
                ENVELOPE,
                'abandoned() { (($1 >= 4)) && { (($1 >= 50)) || find_left "$pid"; }; }',
                "abandoned() { (($1 >= 4)); }",
            ),
        ),
        ("tests/executors/test_envelope_slow.py",),
    ),
    Mutant(
        "the epoch is not compared",
        (
            Edit(
                "service/store/node_run_writes.py",
                '_C.epoch == bindparam("saved_epoch")',
                'bindparam("saved_epoch") > -1',
            ),
        ),
        (f"{NODE_RUNS}::test_a_write_with_a_lost_epoch_changes_nothing[sqlite]",),
    ),
    Mutant(
        "the gate digest is not compared",
        (Edit("service/app/decide.py", "if decision.digest != gate.digest:", "if False:"),),
        ("tests/app/test_second_person.py::test_the_digest_must_be_that_of_the_gate",),
    ),
    Mutant(
        "the requester is not compared",
        (Edit("service/app/decide.py", "if person.name in run.requesters:", "if False:"),),
        ("tests/app/test_second_person.py::test_the_requester_is_refused_though_he_is_an_approver_too",),
    ),
    Mutant(
        "a retry forgets who requested first",
        (Edit("service/app/retry_run.py", "            also_requested_by=run.requesters,\n", ""),),
        ("tests/app/test_second_person.py::test_by_retry_neither_the_first_nor_the_second_requester_may_answer",),
    ),
    Mutant(
        "the index of one acting node run on a node is dropped",
        (
            Edit(
                MIGRATION,
                '        "uq_node_runs_one_acting",\n        "node_runs",\n        ["node"],\n        unique=True,\n',
                '        "uq_node_runs_one_acting",\n        "node_runs",\n        ["node"],\n        unique=False,\n',
            ),
            Edit(
                "service/store/tables.py",
                '    _partial("uq_node_runs_one_acting", HOLDING, "node", unique=True),\n',
                '    _partial("uq_node_runs_one_acting", HOLDING, "node", unique=False),\n',
            ),
        ),
        (f"{NODE_RUNS}::test_one_acting_node_run_has_a_node_to_itself",),
    ),
    Mutant(
        "run does not look a second time",
        (
            Edit(
                "runbooks/abort-stuck-fuse.yaml",
                '      targets=$(dead "$PARAM_FSTYPE" | approved)\n',
                '      targets=$(cat "$UNSTICK_TARGETS")\n',
            ),
        ),
        ("tests/acceptance/test_cure_local.py::test_run_looks_again_and_leaves_what_is_no_longer_stuck",),
    ),
    Mutant(
        "verify is skipped after an act",
        (
            Edit(
                "service/domain/play.py",
                "    proof = prove(scene, round, targets=targets, once=not (acted or vanished))\n",
                "    proof: Action | Proof = Proof(WellNow.YES)\n",
            ),
        ),
        ("tests/unit/test_outcome_table.py",),
    ),
    Mutant(
        "a boot is sent without stored evidence",
        (
            Edit(
                "service/domain/next_action.py",
                "played.kind is ScriptKind.VERIFY or _has_evidence(runbook, history, course):",
                "True:",
            ),
        ),
        ("tests/unit/test_evidence.py",),
    ),
    Mutant(
        "a look whose output is not stored is evidence",
        (
            Edit(
                "service/domain/next_action.py",
                "        and attempt.output_sha256 is not None\n        and attempt.stdout_bytes > 0\n",
                "",
            ),
        ),
        ("tests/app/test_evidence.py",),
    ),
    Mutant(
        "the dry-run guard is off",
        (Edit("service/app/guard.py", "if order.dry_run and order.acting:", "if False:"),),
        ("tests/app/test_guard.py",),
    ),
    Mutant(
        "the update trigger of the audit is dropped on SQLite",
        (
            Edit(
                MIGRATION,
                '    """CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events\n'
                '    BEGIN SELECT RAISE(ABORT, \'audit_events is append-only\'); END""",\n',
                "",
            ),
        ),
        (f"{AUDIT}::test_the_audit_takes_nothing_but_its_next_event",),
    ),
    Mutant(
        "the delete trigger of the audit is dropped on SQLite",
        (
            Edit(
                MIGRATION,
                '    """CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events\n'
                '    BEGIN SELECT RAISE(ABORT, \'audit_events is append-only\'); END""",\n',
                "",
            ),
        ),
        (f"{AUDIT}::test_the_audit_takes_nothing_but_its_next_event",),
    ),
    Mutant(
        "the append-only trigger of the audit is off on PostgreSQL",
        (
            Edit(
                MIGRATION,
                "ENABLE ALWAYS TRIGGER audit_events_append_only",
                "DISABLE TRIGGER audit_events_append_only",
            ),
        ),
        (f"{AUDIT}::test_postgres_has_no_way_around_the_triggers",),
    ),
    Mutant(
        "the chain is not locked on PostgreSQL",
        (
            Edit(
                "service/store/audit.py",
                '        connection.execute(_LOCK, {"space": locks.SPACE, "chain": locks.CHAIN})\n',
                "        pass\n",
            ),
        ),
        ("tests/store/test_chain_lock.py",),
    ),
)


class Copy:
    """A copy of the tracked files, in which tests are run with its own `service`."""

    def __init__(self, folder: Path) -> None:
        """Copy them, as they stand in the working tree."""
        self.folder = folder
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        self._environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self._environment.pop("PYTEST_ADDOPTS", None)
        where = self._python("-c", "import service; print(service.__file__)").stdout.strip()
        if Path(where) != folder / "service/__init__.py":
            raise MutantError(f"Tests of the copy would use {where}.")

    @contextmanager
    def changed(self, edits: Sequence[Edit]) -> Iterator[None]:
        """Have the edits in the copy while the block runs."""
        before = {edit.file: (self.folder / edit.file).read_text() for edit in edits}
        after = dict(before)
        for edit in edits:
            found = after[edit.file].count(edit.old)
            if found != 1:
                raise MutantError(f"{edit.file} has {found} places that read {edit.old!r}, not one.")
            after[edit.file] = after[edit.file].replace(edit.old, edit.new)
        for file, text in after.items():
            (self.folder / file).write_text(text)
        try:
            yield
        finally:
            for file, text in before.items():
                (self.folder / file).write_text(text)

    def first_failure(self, tests: Sequence[str]) -> str | None:
        """Return the name of the first test that fails, None when all pass; MutantError when they do not run."""
        done = self._python("-m", "pytest", "-x", "-rf", "--tb=no", *tests)
        if done.returncode == 0:
            return None
        failed = _FAILED.search(done.stdout)
        if done.returncode != 1 or failed is None:
            raise MutantError(f"The tests did not run: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        return failed[1]

    def _python(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )


def play(copy: Copy, mutant: Mutant) -> str | None:
    """Return the test that catches a mutant, None when it survives; MutantError when that cannot be told."""
    # The same tests alone, first: one that leans on others would fail for that.
    failed = copy.first_failure(mutant.tests)
    if failed is not None:
        raise MutantError(f"{failed} fails without any mutant.")
    with copy.changed(mutant.edits):
        return copy.first_failure(mutant.tests)


def main(arguments: Sequence[str]) -> int:
    """Play them, print which test caught each, and return 1 when one survived."""
    word = arguments[0] if arguments else ""
    chosen = [mutant for mutant in MUTANTS if word in mutant.name]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder).resolve())
        for mutant in chosen:
            caught = play(copy, mutant)
            survivors += caught is None
            print(f"{mutant.name}: {'caught by ' + caught if caught else 'SURVIVED'}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} survived")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
