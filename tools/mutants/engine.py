"""Mutants of the engine, the envelope and the record."""

from tools.mutants.table import Edit, Mutant

ENVELOPE = "service/executors/node_runner.sh"
MIGRATION = "migrations/versions/0001_first_tables.py"
DOOR = "tests/executors/test_envelope_door.py"
NODE_RUNS = "tests/store/test_node_runs.py"
AUDIT = "tests/store/test_audit.py"

ENGINE = (
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
        "the index of one acting node run on a node is dropped",
        (
            Edit(
                MIGRATION,
                '        "uq_node_runs_one_acting",\n        "node_runs",\n        ["node"],\n        unique=True,\n',
                '        "uq_node_runs_one_acting",\n        "node_runs",\n        ["node"],\n        unique=False,\n',
            ),
            Edit(
                "service/store/tables.py",
                '    partial_index("uq_node_runs_one_acting", HOLDING, "node", unique=True),\n',
                '    partial_index("uq_node_runs_one_acting", HOLDING, "node", unique=False),\n',
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
