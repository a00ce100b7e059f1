"""Mutants of the rails: what keeps an alert from starting a run, and what its end ends."""

from tools.mutants.table import one

RAILS = "service/domain/rails.py"
FACTS = "service/app/rail_facts.py"
JUDGE = "service/app/judge_alerts.py"
READS = "service/store/alert_reads.py"
ENDS = "service/app/end_resolved.py"
SURVEY = "service/domain/survey.py"
JUDGED = "tests/app/test_judge_alerts.py"
HELD = "tests/app/test_held_alerts.py"
SURVEYED = "tests/app/test_survey.py"

KNOWN = (
    one(
        "what has started a run starts another",
        RAILS,
        "    if earlier is None:\n        return None\n",
        "    return None\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "an alert is known whenever it began",
        READS,
        '_OCCASION = and_(_FAULT, _A.starts_at == bindparam("starts_at"), _UNDERSTOOD)',
        '_OCCASION = and_(_FAULT, _A.starts_at >= bindparam("starts_at") - bindparam("starts_at"), _UNDERSTOOD)',
        "tests/store/test_alerts.py::test_what_is_known_of_a_fault_is_found",
    ),
    one(
        "an alert is known by its beginning alone",
        READS,
        '_FAULT = and_(_A.source == bindparam("source"), _A.fingerprint == bindparam("fingerprint"))',
        '_FAULT = _A.source == bindparam("source")',
        "tests/store/test_alerts.py::test_what_is_known_of_a_fault_is_found",
    ),
    one(
        "an alert of another source is known",
        READS,
        '_FAULT = and_(_A.source == bindparam("source"), _A.fingerprint == bindparam("fingerprint"))',
        '_FAULT = _A.fingerprint == bindparam("fingerprint")',
        "tests/store/test_alerts.py::test_what_is_known_of_a_fault_is_found",
    ),
    one(
        "a delivery that comes again is another one",
        "service/app/receive_alerts.py",
        "    return None if first is None else first.id\n",
        "    return None\n",
        f"{JUDGED}::test_a_delivery_that_comes_again_is_the_first_one",
    ),
    one(
        "a rule folds nothing",
        RAILS,
        "    if last is not None and case.now - last.created_at < rule.dedup:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
)

STALE = (
    one(
        "what is resolved is acted on",
        RAILS,
        "    if facts.resolved_at is not None:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "nobody looks whether it is resolved",
        FACTS,
        "        resolved_at=reader.resolved_at(alert),\n",
        "",
        "tests/app/test_judge_alerts.py::test_an_alert_that_was_resolved_before_it_was_judged_starts_nothing",
    ),
    one(
        "what is too old is acted on",
        RAILS,
        "    if age > question.rule.max_age:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "what nobody has said for a day is acted on",
        RAILS,
        "    if case.now - facts.heard_at > STILL_TRUE:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "what began before the last boot is acted on",
        RAILS,
        "    if booted is not None and question.starts_at <= booted:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "nobody looks whether the node was seen to boot",
        FACTS,
        "        rebooted_at=reader.rebooted_at(name),\n",
        "",
        f"{JUDGED}::test_an_alert_from_before_a_boot_that_a_script_has_seen_starts_nothing",
    ),
    one(
        "what began before the last cure is acted on",
        RAILS,
        "    if cured is not None and question.starts_at < cured:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
)

STOPPED = (
    one(
        "a pause holds nothing",
        RAILS,
        "    if case.facts.pause is not None:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "nobody looks whether alerts are paused",
        FACTS,
        "        pause=pause,\n",
        "",
        "tests/app/test_held_alerts.py::test_each_monitor_of_a_pair_that_says_it_is_over_is_listed_with_the_node",
    ),
    one(
        "a freeze holds nothing",
        RAILS,
        "    if frozen is not None:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_a_freeze_holds_alerts_until_its_end",
    ),
    one(
        "a freeze is for no pool",
        "service/domain/policy.py",
        "        return not self.pools or bool(set(self.pools) & set(pools))\n",
        "        return not self.pools\n",
        "tests/unit/test_rails.py::test_a_freeze_of_one_of_its_pools_holds_a_node",
    ),
    one(
        "a latched breaker holds nothing",
        RAILS,
        "    if breaker is not None and breaker.latched:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "a breaker does not latch",
        JUDGE,
        "    if judgement.latches:\n",
        "    if False:\n",
        f"{HELD}::test_too_many_nodes_in_a_window_latch_the_breaker_until_an_admin_resets_it",
    ),
    one(
        "a breaker closes by itself",
        RAILS,
        "        return AlertJudgement(held.verdict, reason, held.held_by, held.wake_at, latches=True)\n",
        "        return AlertJudgement(held.verdict, reason, held.held_by, held.wake_at, latches=False)\n",
        "tests/app/test_held_alerts.py::test_too_many_nodes_in_a_window_latch_the_breaker_until_an_admin_resets_it",
    ),
    one(
        "what a breaker counts goes on behind its reset",
        FACTS,
        "    return window if breaker.reset_at is None else max(window, breaker.reset_at)\n",
        "    return window\n",
        "tests/app/test_held_alerts.py::test_what_was_disrupted_before_a_reset_does_not_latch_the_breaker_again",
    ),
)

TRIED = (
    one(
        "a node is not left in peace after a run",
        RAILS,
        "    if ended is not None and case.now < ended + rule.cooldown:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "a rule tries without an end",
        RAILS,
        "    if tries < budget.most:\n",
        "    if True:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "an escalation counts as a try",
        RAILS,
        "one.rule == rule.name and one.played and not one.escalated]",
        "one.rule == rule.name and one.played]",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "the looks of sweeps hide what was tried",
        READS,
        "    query = query.where(runs.c.trigger_kind != TriggerKind.SWEEP)\n",
        "",
        "tests/app/test_sweep_alerts.py::test_many_looks_do_not_hide_what_a_rule_has_tried",
    ),
)

TAKEN = (
    one(
        "an alert acts on a held node",
        RAILS,
        "    if hold is not None and hold.active(case.now):\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "an alert acts on a busy node",
        RAILS,
        "    if busy is not None and case.question.acts:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "any number of nodes is disrupted at once",
        RAILS,
        "    if facts.disrupted >= limits.nodes_at_once:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "any share of a pool is disrupted at once",
        RAILS,
        "        if load.disrupted >= most:\n",
        "        if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "any number of nodes is disrupted in a window",
        RAILS,
        "    if case.question.node not in facts.in_window and len(facts.in_window) >= limits.per_window.most:\n",
        "    if False:\n",
        "tests/unit/test_rails.py::test_the_table_of_rails",
    ),
    one(
        "the runs of persons disrupt nothing",
        READS,
        "or_(_N.state.in_(HOLDING_STATES), _STARTED))",
        "_STARTED)",
        "tests/app/test_held_alerts.py::test_a_run_of_a_person_counts_against_the_blast_radius",
    ),
    one(
        "what alerts have begun counts only once it has a node",
        READS,
        "or_(_N.state.in_(HOLDING_STATES), _STARTED))",
        "_N.state.in_(HOLDING_STATES))",
        "tests/app/test_held_alerts.py::test_as_many_nodes_as_may_be_are_disrupted_and_the_others_follow",
    ),
    one(
        "the rails are not looked at again where the run is written",
        JUDGE,
        "    judgement = one.judgement or _ask_rails(moment, transaction, one)\n",
        '    judgement = one.judgement or (AlertJudgement(AlertVerdict.RAN, "") if one.would_run else '
        "_ask_rails(moment, transaction, one))\n",
        f"{HELD}::test_as_many_nodes_as_may_be_are_disrupted_and_the_others_follow",
    ),
    one(
        "a node of somebody else is disrupted",
        RAILS,
        "    return _held(case, HeldBy.OWNER, reason) if reason else None\n",
        "    return None\n",
        "tests/app/test_survey.py::test_an_alert_on_a_node_of_somebody_else_is_held_until_it_is_free",
    ),
    one(
        "a node whose owner could not be asked is nobody's",
        SURVEY,
        '            return f"Whether somebody else has {node} is not known: {owners.why}"\n',
        '            return ""\n',
        "tests/app/test_survey.py::test_an_alert_on_a_node_of_somebody_else_is_held_until_it_is_free",
    ),
    one(
        "what could not be counted is within the limit",
        SURVEY,
        "    return part.sight is Sight.COULD_NOT_LOOK or part.count > most\n",
        "    return part.count > most\n",
        "tests/unit/test_survey.py::test_what_is_over_a_limit_or_could_not_be_seen_is_for_a_person",
    ),
    one(
        "over a limit a waived gate stays waived",
        "service/app/gates.py",
        "    waived = opening.waived and not (survey is not None and survey.over)\n",
        "    waived = opening.waived\n",
        "tests/app/test_survey.py::test_over_a_limit_a_waived_gate_is_opened_for_a_person_and_says_why",
    ),
    one(
        "limits that cannot be read are none",
        "service/app/gates.py",
        '        return replace(survey, over=(f"The limits are not known: {wrong.reason}",))\n',
        "        return survey if wrong else survey\n",
        f"{SURVEYED}::test_limits_that_cannot_be_read_leave_a_waived_gate_to_a_person",
    ),
)

RESOLVED = (
    one(
        "what is resolved cancels nothing",
        ENDS,
        "        transaction.request_cancel(node_run.id, by=SELF, reason=why)\n",
        "        pass\n",
        f"{JUDGED}::test_a_resolved_alert_cancels_the_run_that_has_not_acted",
    ),
    one(
        "what is resolved stays held",
        ENDS,
        "            _end_held(transaction, alert, now=now)\n",
        "            pass\n",
        "tests/app/test_held_alerts.py::test_an_alert_that_is_resolved_while_it_is_held_starts_nothing",
    ),
    one(
        "what is resolved cancels what has acted",
        ENDS,
        "    if any(attempt.acting for one in histories for attempt in one.attempts):\n",
        "    if False:\n",
        f"{JUDGED}::test_a_resolved_alert_leaves_a_run_alone_that_has_acted",
    ),
    one(
        "what is resolved cancels what another alert still asks for",
        ENDS,
        "    if others:\n",
        "    if False:\n",
        f"{JUDGED}::test_a_run_goes_on_while_one_of_its_alerts_still_fires",
    ),
)

ALERTS = (*KNOWN, *STALE, *STOPPED, *TRIED, *TAKEN, *RESOLVED)
