"""Mutants of gates: who may answer, what is answered, until when, and breaking glass."""

from tools.mutants.table import Edit, Mutant, one

DECIDE = "service/app/decide.py"
RIGHTS = "service/domain/rights.py"
PERSON = "service/domain/person.py"
PLAY = "service/domain/play.py"
SECOND = "tests/app/test_second_person.py"
SELF = "tests/app/test_self_approval.py"
ASKED = f"{SELF}::test_whoever_asked_for_it_is_refused_and_a_second_person_is_not"
DOWNTIME = "tests/app/test_gate_downtime.py"
OVERRIDE = "tests/app/test_override.py"
PAGES = "tests/web/test_pages.py"
_GATE = "service.store.read(lambda reader: reader.gate({}))"

WHO = (
    one(
        "the requester is not compared",
        RIGHTS,
        "if is_among(person.name, about.requesters):",
        "if False:",
        f"{SECOND}::test_the_requester_is_refused_though_he_is_an_approver_too",
    ),
    one(
        "another spelling of a name is a second person",
        RIGHTS,
        "if is_among(person.name, about.requesters):",
        "if person.name in about.requesters:",
        f"{SELF}::test_another_spelling_of_his_name_is_no_second_person",
    ),
    one(
        "another token of a person is a second person",
        PERSON,
        "return Person(self.person, self.roles, self.reach)",
        "return Person(self.name, self.roles, self.reach)",
        f"{SELF}::test_no_door_lets_him_answer_with_any_of_his_tokens",
    ),
    one(
        "whose token has delivered does not count as requester",
        "service/app/know_sender.py",
        "    return Sender(source, token.person)\n",
        '    return Sender(source, f"source:{name}")\n',
        "tests/web/test_webhooks.py::test_the_person_of_a_token_delivers_and_a_signature_is_the_source_itself",
    ),
    one(
        "what an alert starts is requested by nobody",
        "service/app/judge_alerts.py",
        "        alert.delivered_by,\n        nodes=",
        "        SELF,\n        nodes=",
        ASKED,
    ),
    one(
        "a retry forgets who requested first",
        "service/app/retry_run.py",
        "(*run.requesters, *retried_by(said for one in chosen",
        "(*(), *retried_by(said for one in chosen",
        f"{SECOND}::test_by_retry_neither_the_first_nor_the_second_requester_may_answer",
    ),
    one(
        "a retry forgets who resolved as retry",
        "service/app/retry_run.py",
        "*retried_by(said for one in chosen for said in one.resolutions)",
        "",
        ASKED,
    ),
    one(
        "who resolves as retry may answer what follows",
        DECIDE,
        "    if gate.kind is not ApprovalKind.CONFIRM and is_among(",
        "    if False and is_among(",
        ASKED,
    ),
    one(
        "an escalation forgets who requested",
        "service/app/end_node_run.py",
        "        requested_by=run.requested_by,\n",
        '        requested_by="unstick",\n',
        "tests/app/test_second_person.py::test_by_escalation_the_requester_stays_the_requester",
    ),
    one(
        "an escalation forgets who else requested",
        "service/app/end_node_run.py",
        "(*run.requesters, *retried_by(history.resolutions))",
        "(*retried_by(history.resolutions),)",
        ASKED,
    ),
    one(
        "an escalation forgets who resolved as retry",
        "service/app/end_node_run.py",
        "(*run.requesters, *retried_by(history.resolutions))",
        "(*run.requesters,)",
        ASKED,
    ),
    one(
        "what a sweep finds is requested by nobody",
        "service/app/sweep_look.py",
        "        delivered_by=run.requested_by,\n",
        '        delivered_by="unstick",\n',
        ASKED,
    ),
    one(
        "an admin answers gates",
        PERSON,
        "Role.ADMIN: frozenset({Permission.READ, Permission.TOKENS, Permission.PAUSE}),",
        "Role.ADMIN: frozenset(Permission),",
        f"{SECOND}::test_an_admin_answers_no_gate",
    ),
    one(
        "an operator answers for a second person",
        DECIDE,
        "            insist(service, person, Permission.APPROVE, about=about)\n",
        "            insist(service, person, Permission.DECIDE, about=about)\n",
        f"{SECOND}::test_an_operator_is_refused_at_a_second_person_gate",
    ),
    one(
        "the right to answer a gate is not asked for",
        DECIDE,
        "        check_may_answer(service, gate, run=run, pools=pools, person=person)\n",
        "",
        "tests/app/test_rights.py::test_no_path_leads_past_the_rights_or_the_reach_of_a_token",
    ),
    one(
        "a rule waives what is never waived",
        PLAY,
        "waived = step.id in scene.run.waived and step.waivable",
        "waived = step.id in scene.run.waived",
        "tests/unit/test_outcome_table.py::test_a_step_that_may_not_be_waived_is_not",
    ),
    one(
        "a retry keeps what a rule has waived",
        "service/app/retry_run.py",
        "            retry_of=run.id,\n",
        "            retry_of=run.id,\n            waived=run.waived,\n",
        "tests/app/test_self_approval.py::test_a_rule_waives_no_gate_that_is_never_waived_nor_that_of_a_retry_or_an_escalation",
    ),
)

WHAT = (
    one(
        "the gate digest is not compared",
        DECIDE,
        "    if digest != gate.digest:",
        "    if False:",
        f"{SECOND}::test_the_digest_must_be_that_of_the_gate",
    ),
    one(
        "the page answers whatever the gate is by now",
        "service/web/routes/gates_page.py",
        "decision = Decision(gate_id, given.digest,",
        f"decision = Decision(gate_id, {_GATE.format('gate_id')}.digest,",
        f"{PAGES}::test_a_digest_that_was_not_shown_decides_nothing",
    ),
    one(
        "the page of overriding overrides whatever the gate is by now",
        "service/web/routes/override_page.py",
        "Override(gate_id, given.digest,",
        f"Override(gate_id, {_GATE.format('gate_id')}.digest,",
        "tests/web/test_override.py::test_another_digest_than_the_one_shown_overrides_nothing",
    ),
    one(
        "an approval over HTTP is of whatever the gate is by now",
        "service/web/routes/approvals.py",
        "Decision(gate_id, body.digest, approve=True,",
        f"Decision(gate_id, {_GATE.format('gate_id')}.digest, approve=True,",
        "tests/web/test_approvals.py::test_s04_another_digest_than_the_one_shown_approves_nothing",
    ),
    one(
        "an approval among many is of whatever the gate is by now",
        "service/web/routes/approvals.py",
        "Decision(one.id, one.digest,",
        f"Decision(one.id, {_GATE.format('one.id')}.digest,",
        "tests/web/test_approvals.py::test_many_answers_are_each_given_by_themselves",
    ),
    one(
        "an override over HTTP is of whatever the gate is by now",
        "service/web/routes/approvals.py",
        "Override(gate_id, body.digest,",
        f"Override(gate_id, {_GATE.format('gate_id')}.digest,",
        "tests/web/test_override.py::test_another_digest_than_the_one_shown_overrides_nothing",
    ),
    one(
        "the boot is not in what is approved",
        "service/domain/plan.py",
        "[plan_digest, node, step, boot_id, list(targets)]",
        "[plan_digest, node, step, list(targets)]",
        "tests/unit/test_plan.py::test_an_approval_is_of_plan_node_step_boot_and_targets",
    ),
    one(
        "the targets are not in what is approved",
        "service/domain/plan.py",
        "[plan_digest, node, step, boot_id, list(targets)]",
        "[plan_digest, node, step, boot_id]",
        "tests/unit/test_plan.py::test_an_approval_is_of_plan_node_step_boot_and_targets",
    ),
    one(
        "a link decides",
        "service/web/routes/gates_page.py",
        '    """Show a gate with its plan, its check, its targets, and the forms of whoever may answer it."""\n',
        f"    seen = {_GATE.format('gate_id')}\n"
        "    if visit.person.may(Permission.DECIDE) and seen.state is GateState.OPEN:\n"
        "        decide(service, Decision(gate_id, seen.digest, approve=True), person=visit.person)\n",
        f"{PAGES}::test_to_open_the_link_decides_nothing",
    ),
    one(
        "one tap approves what may disrupt work",
        "service/web/routes/gates_page.py",
        "    return gate.kind is ApprovalKind.SECOND_PERSON\n",
        "    return False\n",
        f"{PAGES}::test_what_may_disrupt_work_is_not_approved_by_one_tap",
    ),
    one(
        "a gate is answered twice",
        DECIDE,
        "    if gate.state is GateState.OPEN:\n        return\n",
        "    if gate.state in (GateState.OPEN, GateState.DENIED):\n        return\n",
        "tests/app/test_second_person.py::test_a_gate_is_answered_once",
    ),
    one(
        "a step that asks for a reason is approved without one",
        DECIDE,
        "    if needs_reason(reader, answered):",
        "    if False:",
        f"{DOWNTIME}::test_where_a_step_asks_for_a_reason_nobody_approves_without_one",
    ),
    one(
        "a denial needs no reason",
        DECIDE,
        "    if answered.state is GateState.DENIED:",
        "    if False:",
        f"{SECOND}::test_a_denial_needs_a_reason",
    ),
    one(
        "a gate that is denied lets it run",
        PLAY,
        "            return Done(StepResult(step.id, StepOutcome.DENIED, why), NodeRunState.DENIED)\n",
        "            return _after_run(scene, round, targets=gate.targets, gate=gate)\n",
        "tests/unit/test_outcome_table.py::test_denied_runs_nothing_and_leaves_no_verdict",
    ),
)

WHEN = (
    one(
        "a gate that has expired lets it run",
        PLAY,
        "            return Done(StepResult(step.id, StepOutcome.DENIED, gate.reason), NodeRunState.EXPIRED)\n",
        "            return _after_run(scene, round, targets=gate.targets, gate=None)\n",
        "tests/unit/test_outcome_table.py::test_expired_runs_nothing_and_leaves_no_verdict",
    ),
    one(
        "an expired gate is approved after a downtime",
        DECIDE,
        "    if gate.state is GateState.OPEN and now >= gate.expires_at:",
        "    if False:",
        f"{DOWNTIME}::test_a_gate_that_expired_while_the_service_was_down_lets_nobody_answer_and_the_node_is_given_back",
    ),
    one(
        "an approval counts at the very end",
        DECIDE,
        "    if gate.state is GateState.OPEN and now >= gate.expires_at:",
        "    if gate.state is GateState.OPEN and now > gate.expires_at:",
        f"{DOWNTIME}::test_at_the_very_moment_at_which_it_expires_nobody_answers",
    ),
    one(
        "a late answer closes no gate",
        DECIDE,
        '        _write(transaction, answered, body={"gate": gate.id, "digest": gate.digest, "reason": why})\n',
        "",
        f"{DOWNTIME}::test_a_clock_that_is_set_back_does_not_open_it_again",
    ),
    one(
        "an approval that was not used counts for ever",
        PLAY,
        "    if gate is not None and scene.now >= gate.expires_at:",
        "    if False:",
        f"{DOWNTIME}::test_an_approval_that_was_not_used_before_it_expired_is_asked_for_again",
    ),
    one(
        "an open gate does not expire by itself",
        PLAY,
        "        case GateState.OPEN if scene.now >= gate.expires_at:",
        "        case GateState.OPEN if False:",
        "tests/app/test_gate_downtime.py::test_the_first_thing_that_is_done_with_it_after_the_start_is_to_close_it",
    ),
    one(
        "an approved act may come after the end of its approval",
        PLAY,
        "    not_after = gate.expires_at if gate is not None else None\n",
        "    not_after = None\n",
        f"{DOWNTIME}::test_what_was_approved_is_sent_with_the_end_of_its_approval_as_the_latest_moment",
    ),
    one(
        "an approval outlives a boot",
        PLAY,
        "            if gate is not None and gate.state is not GateState.VOID:\n",
        "            if False:\n",
        "tests/unit/test_outcome_table.py::test_a_run_that_was_not_started_is_looked_at_again_with_a_new_gate",
    ),
)

GLASS = (
    one(
        "an approver breaks glass",
        PERSON,
        "Role.APPROVER: frozenset({Permission.READ, Permission.DECIDE, Permission.APPROVE}),",
        "Role.APPROVER: frozenset({Permission.READ, Permission.DECIDE, Permission.APPROVE, Permission.OVERRIDE}),",
        f"{OVERRIDE}::test_it_takes_the_role_and_the_policy",
    ),
    one(
        "glass is broken without the policy",
        RIGHTS,
        "    if permission is Permission.OVERRIDE:\n",
        "    if False:\n",
        f"{OVERRIDE}::test_it_takes_the_role_and_the_policy",
    ),
    one(
        "glass is broken by who has no role for it",
        "service/app/override.py",
        "        insist(service, person, Permission.OVERRIDE, about=about_node_run(node_run))\n",
        "        insist(service, person, Permission.READ, about=about_node_run(node_run))\n",
        f"{OVERRIDE}::test_it_takes_the_role_and_the_policy",
    ),
    one(
        "glass is broken without a reason",
        DECIDE,
        "    if answered.state is GateState.OVERRIDDEN:\n        raise",
        "    if answered.state is GateState.OVERRIDDEN:\n        return\n        raise",
        f"{OVERRIDE}::test_it_takes_a_reason",
    ),
    one(
        "glass is broken while policy.yaml is broken",
        "service/triggers/policy_file.py",
        "        if problem is None or not policy.break_glass:",
        "        if True:",
        "tests/triggers/test_policy_file.py::"
        "test_break_glass_is_off_while_the_file_that_switched_it_on_is_gone_or_wrong",
    ),
    one(
        "an override is recorded as an approval",
        "service/app/override.py",
        "state=GateState.OVERRIDDEN,",
        "state=GateState.APPROVED,",
        f"{OVERRIDE}::test_the_requester_overrides_his_own_run_and_it_is_shown_as_no_approval",
    ),
    one(
        "an override is told to those alone whom a rule names",
        "service/domain/notice.py",
        "        if notice.kind is NoticeKind.OVERRIDE:\n",
        "        if False:\n",
        f"{OVERRIDE}::test_everybody_is_told_whatever_the_rules_say",
    ),
    Mutant(
        "the page overrides without the name of the node",
        (
            Edit("service/web/routes/override_page.py", "    if not given.node:\n", "    if False:\n"),
            Edit("service/web/routes/override_page.py", "    if node != wanted:\n", "    if False:\n"),
        ),
        ("tests/web/test_override.py::test_the_page_asks_once_more_and_takes_the_name_of_the_node_alone",),
    ),
)

GATES = (*WHO, *WHAT, *WHEN, *GLASS)
