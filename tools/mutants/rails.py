"""Mutants of the rails: what keeps an alert from starting a run, and what its end ends."""

from tools.mutants.table import one

RAILS = "service/domain/rails.py"
FACTS = "service/app/rail_facts.py"
JUDGE = "service/app/judge_alerts.py"
READS = "service/store/alert_reads.py"
ENDS = "service/app/end_resolved.py"
SURVEY = "service/domain/survey.py"
TABLE = "tests/unit/test_rails.py"
JUDGED = "tests/app/test_judge_alerts.py"
HELD = "tests/app/test_held_alerts.py"
STORE = "tests/store/test_alerts.py"
SURVEYED = "tests/app/test_survey.py"

KNOWN = (
    one(
        "what has started a run starts another",
        RAILS,
        "    if earlier is None:\n        return None\n",
        "    return None\n",
        TABLE,
    ),
    one(
        "an alert is known whenever it began",
        READS,
        '_OCCASION = and_(_FAULT, _A.starts_at == bindparam("starts_at"), _UNDERSTOOD)',
        '_OCCASION = and_(_FAULT, _A.starts_at >= bindparam("starts_at") - bindparam("starts_at"), _UNDERSTOOD)',
        STORE,
        JUDGED,
    ),
    one(
        "an alert is known by its beginning alone",
        READS,
        '_FAULT = and_(_A.source == bindparam("source"), _A.fingerprint == bindparam("fingerprint"))',
        '_FAULT = _A.source == bindparam("source")',
        STORE,
        JUDGED,
    ),
    one(
        "an alert of another source is known",
        READS,
        '_FAULT = and_(_A.source == bindparam("source"), _A.fingerprint == bindparam("fingerprint"))',
        '_FAULT = _A.fingerprint == bindparam("fingerprint")',
        STORE,
        JUDGED,
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
        TABLE,
    ),
)

STALE = (
    one(
        "what is resolved is acted on",
        RAILS,
        "    if facts.resolved_at is not None:\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "nobody looks whether it is resolved",
        FACTS,
        "        resolved_at=reader.resolved_at(alert),\n",
        "",
        JUDGED,
    ),
    one(
        "what is too old is acted on",
        RAILS,
        "    if age > question.rule.max_age:\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "what nobody has said for a day is acted on",
        RAILS,
        "    if case.now - facts.heard_at > STILL_TRUE:\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "what began before the last boot is acted on",
        RAILS,
        "    if booted is not None and question.starts_at <= booted:\n",
        "    if False:\n",
        TABLE,
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
        TABLE,
    ),
)

STOPPED = (
    one(
        "a pause holds nothing",
        RAILS,
        "    if case.facts.pause is not None:\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "nobody looks whether alerts are paused",
        FACTS,
        "        pause=pause,\n",
        "",
        HELD,
    ),
    one(
        "a freeze holds nothing",
        RAILS,
        "    if frozen is not None:\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "a freeze is for no pool",
        "service/domain/policy.py",
        "        return not self.pools or bool(set(self.pools) & set(pools))\n",
        "        return not self.pools\n",
        TABLE,
    ),
    one(
        "a latched breaker holds nothing",
        RAILS,
        "    if breaker is not None and breaker.latched:\n",
        "    if False:\n",
        TABLE,
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
        HELD,
    ),
    one(
        "what a breaker counts goes on behind its reset",
        FACTS,
        "    return window if breaker.reset_at is None else max(window, breaker.reset_at)\n",
        "    return window\n",
        HELD,
    ),
)

TRIED = (
    one(
        "a node is not left in peace after a run",
        RAILS,
        "    if ended is not None and case.now < ended + rule.cooldown:\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "a rule tries without an end",
        RAILS,
        "    if tries < budget.most:\n",
        "    if True:\n",
        TABLE,
    ),
    one(
        "an escalation counts as a try",
        RAILS,
        "one.rule == rule.name and one.played and not one.escalated]",
        "one.rule == rule.name and one.played]",
        TABLE,
        JUDGED,
    ),
    one(
        "the looks of sweeps hide what was tried",
        READS,
        "    query = query.where(runs.c.trigger_kind != TriggerKind.SWEEP)\n",
        "",
        "tests/app/test_sweep_alerts.py",
    ),
)

TAKEN = (
    one(
        "an alert acts on a held node",
        RAILS,
        "    if hold is not None and hold.active(case.now):\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "an alert acts on a busy node",
        RAILS,
        "    if busy is not None and case.question.acts:\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "any number of nodes is disrupted at once",
        RAILS,
        "    if facts.disrupted >= limits.nodes_at_once:\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "any share of a pool is disrupted at once",
        RAILS,
        "        if load.disrupted >= most:\n",
        "        if False:\n",
        TABLE,
    ),
    one(
        "any number of nodes is disrupted in a window",
        RAILS,
        "    if case.question.node not in facts.in_window and len(facts.in_window) >= limits.per_window.most:\n",
        "    if False:\n",
        TABLE,
    ),
    one(
        "the runs of persons disrupt nothing",
        READS,
        "or_(_N.state.in_(HOLDING_STATES), _STARTED))",
        "_STARTED)",
        HELD,
    ),
    one(
        "what alerts have begun counts only once it has a node",
        READS,
        "or_(_N.state.in_(HOLDING_STATES), _STARTED))",
        "_N.state.in_(HOLDING_STATES))",
        HELD,
        STORE,
        "tests/app/test_storm.py",
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
        TABLE,
        SURVEYED,
    ),
    one(
        "a node whose owner could not be asked is nobody's",
        SURVEY,
        '            return f"Whether somebody else has {node} is not known: {owners.why}"\n',
        '            return ""\n',
        "tests/unit/test_survey.py",
        TABLE,
        SURVEYED,
    ),
    one(
        "what could not be counted is within the limit",
        SURVEY,
        "    return part.sight is Sight.COULD_NOT_LOOK or part.count > most\n",
        "    return part.count > most\n",
        "tests/unit/test_survey.py",
    ),
    one(
        "over a limit a waived gate stays waived",
        "service/app/gates.py",
        "    waived = opening.waived and not (survey is not None and survey.over)\n",
        "    waived = opening.waived\n",
        SURVEYED,
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
        HELD,
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
