"""Mutants of the cure without the service: the exported script, and what is taken for its journal."""

from tools.mutants.table import one

PLAYER = "service/executors/by_hand.sh"
JOURNAL = "service/domain/by_hand.py"
PLAY = "service/domain/by_hand_play.py"
IMPORT = "service/app/import_run.py"
EXPORTED = "tests/cli/test_export.py"
IMPORTED = "tests/app/test_import.py"
CHAINED = f"{IMPORTED}::test_a_journal_chained_anew_is_no_run_of_its_plan"

SCRIPT = (
    one(
        "a typed gate is skipped",
        PLAYER,
        '    [ "$gate" = none ] || at_gate || return\n',
        "",
        f"{EXPORTED}::test_a_gate_is_typed_and_the_node_is_proven_cured",
    ),
    one(
        "yes is an answer",
        PLAYER,
        '      "$node") answer=approved ;;\n',
        '      "$node" | yes) answer=approved ;;\n',
        f"{EXPORTED}::test_a_yes_is_no_answer_and_a_denial_runs_nothing",
    ),
    one(
        "who began the script is its second person",
        PLAYER,
        '      [ "$(lower "$one")" != "$(lower "$typed")" ] || clear=\'\'\n',
        "",
        f"{EXPORTED}::test_the_second_person_is_not_the_first",
    ),
    one(
        "a typed answer counts late",
        PLAYER,
        '      [ "$now" -lt "$expires" ] || answer=expired\n',
        "",
        f"{EXPORTED}::test_an_answer_behind_the_deadline_runs_nothing",
    ),
    one(
        "bytes that were changed are played",
        PLAYER,
        '    [ "${found%% *}" = "$wanted" ] || refuse',
        "    true || refuse",
        f"{EXPORTED}::test_a_script_whose_bytes_were_changed_does_nothing",
    ),
    one(
        "a journal that was changed is played on",
        PLAYER,
        '    [ "$value" = "$chain" ] || refuse',
        "    true || refuse",
        f"{EXPORTED}::test_a_journal_that_was_changed_stops_everything",
    ),
    one(
        "a script is played on any machine",
        PLAYER,
        '      [ "$typed" = "$node" ] || refuse',
        "      true || refuse",
        f"{EXPORTED}::test_a_wrong_machine_does_nothing",
    ),
    one(
        "a script of two places is exported",
        "service/app/export_run.py",
        "    _refuse_other_places(plan)\n",
        "",
        f"{EXPORTED}::test_a_runbook_for_two_places_is_refused",
    ),
    one(
        "a look by hand is not confined",
        PLAYER,
        '    setting confine "$confine"\n',
        "",
        "tests/cli/test_export_boots.py",
    ),
)

TAKEN_IN = (
    one(
        "the digest of a journal is not compared",
        IMPORT,
        "    if plan.digest != header.digest:\n",
        "    if False:\n",
        "tests/app/test_import.py::test_a_journal_chained_anew_is_no_run_of_its_plan",
    ),
    one(
        "the hash of a line is not compared",
        JOURNAL,
        '        if sha256(f"{previous}\\n{found[\'text\']}") != found["hash"]:\n',
        "        if False:\n",
        f"{IMPORTED}::test_a_changed_member_breaks_its_line",
    ),
    one(
        "a journal without its end is taken",
        JOURNAL,
        "    if lines[-1].event is not Event.ENDED:\n",
        "    if False:\n",
        f"{IMPORTED}::test_a_journal_without_its_end_is_unfinished",
    ),
    one(
        "a journal that begins again is taken",
        JOURNAL,
        "        if earlier.event is Event.ENDED or later.event is Event.BEGUN:\n",
        "        if False:\n",
        "tests/app/test_import.py::test_a_journal_chained_anew_is_no_run_of_its_plan",
    ),
    one(
        "the plan of a journal is not that of its header",
        JOURNAL,
        '(("plan", header.digest), ("node", header.node))',
        '(("node", header.node),)',
        "tests/app/test_import.py::test_a_journal_chained_anew_is_no_run_of_its_plan",
    ),
    one(
        "the node of a journal is not that of its header",
        JOURNAL,
        '(("plan", header.digest), ("node", header.node))',
        '(("plan", header.digest),)',
        "tests/app/test_import.py::test_a_journal_chained_anew_is_no_run_of_its_plan",
    ),
    one(
        "a journal sends what the runbook does not",
        PLAY,
        "    if wanted != (action.step, action.kind, action.round, action.targets, action.acting):\n",
        "    if False:\n",
        CHAINED,
    ),
    one(
        "a journal acts where the runbook opens a gate",
        PLAY,
        "    if not isinstance(action, Dispatch):\n        raise",
        "    if isinstance(action, OpenGate):\n        return\n    if not isinstance(action, Dispatch):\n        raise",
        CHAINED,
    ),
    one(
        "a journal acts on another boot than the one that was looked at",
        PLAY,
        '    if (line.word("bound") or None) != action.boot_id:\n',
        "    if False:\n",
        CHAINED,
    ),
    one(
        "a journal plays another script than the plan's",
        PLAY,
        '    if line.word("script_sha256") != planned.sha256:\n',
        "    if False:\n",
        CHAINED,
    ),
    one(
        "a journal opens another gate than the runbook",
        PLAY,
        "    if wanted != (action.step, action.round, action.kind, action.check_attempt_id):\n",
        "    if False:\n",
        CHAINED,
    ),
    one(
        "a journal is answered behind the end of its gate",
        PLAY,
        '        case "approved" | "denied" if gate.state is GateState.OPEN and line.at < gate.expires_at:\n',
        '        case "approved" | "denied" if gate.state is GateState.OPEN:\n',
        CHAINED,
    ),
    one(
        "who began a journal is its second person",
        PLAY,
        "    if gate.kind is ApprovalKind.SECOND_PERSON and is_among(who, play.persons):\n",
        "    if False:\n",
        CHAINED,
    ),
    one(
        "an answer that was typed is an approval",
        PLAY,
        '    state = GateState.OVERRIDDEN if line.word("answer") == "approved" else GateState.DENIED\n',
        '    state = GateState.APPROVED if line.word("answer") == "approved" else GateState.DENIED\n',
        f"{IMPORTED}::test_a_cure_by_hand_stands_in_the_record_with_its_gate_overridden",
    ),
    one(
        "a journal ends as it likes",
        PLAY,
        '    if (line.word("state"), line.word("verdict")) != (state, verdict or ""):\n',
        "    if False:\n",
        CHAINED,
    ),
    one(
        "a journal is taken twice",
        IMPORT,
        "        _refuse_known(transaction, run.id)\n",
        "",
        f"{IMPORTED}::test_a_journal_is_imported_once",
    ),
    one(
        "whoever may not request a run imports it",
        IMPORT,
        "        insist_on_nodes(service, person, Permission.REQUEST, node_runs=[node_run])\n",
        "",
        f"{IMPORTED}::test_whoever_may_not_request_the_run_may_not_import_it",
    ),
    one(
        "whoever may not request a run on a node imports it there",
        IMPORT,
        "        insist(service, person, Permission.REQUEST, about=about)\n",
        "",
        f"{IMPORTED}::test_whoever_may_not_request_the_run_may_not_import_it",
    ),
    one(
        "who typed at the node did not request the run",
        IMPORT,
        "tuple(sorted({person.name, *journal.persons}))",
        "(person.name,)",
        "tests/app/test_import.py::test_a_cure_by_hand_stands_in_the_record_with_its_gate_overridden",
    ),
)

BY_HAND = (*SCRIPT, *TAKEN_IN)
