"""Mutants of what is kept, shown and told: secrets, sweeps and the fleet, notices."""

from tools.mutants.table import Edit, Mutant, one

REDACTION = "service/domain/redaction.py"
MASKED = "service/app/masked_output.py"
ATTEMPT = "service/app/record_attempt.py"
RECEIVE = "service/app/receive_alerts.py"
SWEEP = "service/domain/sweep.py"
LOOK = "service/app/sweep_look.py"
TELL = "service/app/notify_tell.py"
FOLLOW = "service/app/notify.py"
NOTICE = "service/domain/notice.py"
PLANTED = "tests/web/test_planted.py"
JUDGED = "tests/app/test_judge_alerts.py"
SWEPT = "tests/app/test_sweeps.py"
FOUND = "tests/app/test_sweep_alerts.py"
NOTICES = "tests/app/test_notices.py"

SECRETS = (
    one(
        "what a script says is kept as it came",
        ATTEMPT,
        "            self._chunks += self._masked.take(chunk)\n",
        "            self._chunks.append(chunk)\n",
        PLANTED,
    ),
    one(
        "nothing is masked",
        REDACTION,
        "    data = KNOWN.masked(data, None)\n",
        "    return data\n",
        "tests/app/test_masked_output.py::test_s09_secrets_are_masked_and_every_other_byte_is_as_it_was",
    ),
    one(
        "what is known by its value is not masked in an output",
        REDACTION,
        "    data = KNOWN.masked(data, None)\n",
        "",
        PLANTED,
        "tests/unit/test_known_secrets.py",
    ),
    one(
        "what is known by its value is not taken out of a text",
        REDACTION,
        "    if not KNOWN.knows_nothing:\n",
        "    if False:\n",
        PLANTED,
        "tests/unit/test_known_secrets.py",
    ),
    one(
        "a secret that comes in two pieces is kept",
        MASKED,
        "    key = data.rfind(_KEY_BEGINS)\n",
        "    return len(data)\n    key = data.rfind(_KEY_BEGINS)\n",
        "tests/app/test_masked_output.py::test_s09_a_secret_that_comes_in_pieces_is_masked_too",
    ),
    one(
        "what an executor reports is kept as it came",
        ATTEMPT,
        "    reason = redact(report.reason)\n",
        "    reason = report.reason\n",
        PLANTED,
    ),
    one(
        "targets are kept with their secrets",
        ATTEMPT,
        "    targets = tuple(redact(one) for one in report.targets) if",
        "    targets = report.targets if",
        PLANTED,
    ),
    one(
        "the body of a delivery is kept as it came",
        RECEIVE,
        "        body=redact_bytes(incoming.body)[:KEPT_BYTES],\n",
        "        body=incoming.body[:KEPT_BYTES],\n",
        "tests/app/test_judge_alerts.py::test_a_body_is_kept_without_secrets_and_up_to_a_bound",
    ),
    one(
        "a secret at the end of what is kept of a body is cut and kept",
        RECEIVE,
        "        body=redact_bytes(incoming.body)[:KEPT_BYTES],\n",
        "        body=redact_bytes(incoming.body[:KEPT_BYTES]),\n",
        "tests/app/test_judge_alerts.py::test_a_body_is_kept_without_secrets_and_up_to_a_bound",
    ),
    one(
        "the labels of an alert are kept as they came",
        RECEIVE,
        "        labels=redact_members(alert.labels),\n",
        "        labels=alert.labels,\n",
        "tests/app/test_judge_alerts.py::test_what_a_label_or_annotation_calls_a_secret_is_not_kept",
    ),
    one(
        "the annotations of an alert are kept as they came",
        RECEIVE,
        "        annotations=redact_members(alert.annotations),\n",
        "        annotations=alert.annotations,\n",
        "tests/app/test_judge_alerts.py::test_what_a_label_or_annotation_calls_a_secret_is_not_kept",
    ),
    one(
        "the link of an alert is kept as it came",
        RECEIVE,
        "        link=redact(alert.link),\n",
        "        link=alert.link,\n",
        "tests/app/test_judge_alerts.py::test_what_a_label_or_annotation_calls_a_secret_is_not_kept",
    ),
    one(
        "what a journal says is kept as it came",
        "service/domain/by_hand_play.py",
        "    streams = {stream: mask(line.unpacked(stream)) for stream in Stream}\n",
        "    streams = {stream: line.unpacked(stream) for stream in Stream}\n",
        "tests/app/test_import.py::test_a_secret_in_a_journal_is_not_kept",
    ),
    one(
        "the log shows secrets",
        "service/logging.py",
        "else redact(str(value))",
        "else str(value)",
        PLANTED,
        "tests/cli/test_logging.py",
    ),
    one(
        "a page shows what is HTML as HTML",
        "service/web/rendering.py",
        "    autoescape=True,\n",
        "    autoescape=False,\n",
        "tests/web/test_pages.py::test_s10_hostile_output_is_shown_inert",
    ),
)

FLEET = (
    one(
        "who could not be looked at is fine",
        SWEEP,
        "            return StepFinding(result.step, Finding.COULD_NOT_LOOK, reason)\n",
        "            return StepFinding(result.step, Finding.FINE, reason)\n",
        f"{SWEPT}::test_who_could_not_be_looked_at_is_not_healthy_and_keeps_when_it_last_answered",
    ),
    Mutant(
        "a node of which something could not be looked at is fine",
        (
            Edit(
                SWEEP,
                "    for finding in (Finding.NEEDS, Finding.NOT_WELL, Finding.COULD_NOT_LOOK):\n",
                "    for finding in (Finding.NEEDS, Finding.NOT_WELL):\n",
            ),
            Edit(SWEEP, "    if node_run.state is not NodeRunState.SUCCEEDED:\n", "    if False:\n"),
        ),
        (SWEPT,),
    ),
    one(
        "what is not well is fine",
        SWEEP,
        "        case StepOutcome.OK if result.well_now is WellNow.NO:\n",
        "        case StepOutcome.OK if False:\n",
        f"{SWEPT}::test_what_check_and_verify_say_is_what_is_found_and_only_a_fault_fires",
    ),
    one(
        "a look that saw nothing says that it was answered",
        SWEEP,
        "    answered = not any(one.finding is Finding.COULD_NOT_LOOK for one in steps) and bool(steps)\n",
        "    answered = True\n",
        "tests/app/test_sweeps.py::test_who_could_not_be_looked_at_is_not_healthy_and_keeps_when_it_last_answered",
    ),
    one(
        "who could not be looked at is resolved",
        LOOK,
        "            elif step.finding is Finding.FINE and known is not None:\n",
        "            elif known is not None:\n",
        f"{FOUND}::test_who_could_not_be_looked_at_neither_fires_nor_is_resolved",
    ),
    one(
        "what comes back after a cure is the occasion of before",
        LOOK,
        "        if known is None or self._is_another(transaction, known):\n",
        "        if known is None:\n",
        "tests/app/test_sweep_alerts.py::test_what_comes_back_after_a_cure_is_another_occasion",
    ),
    one(
        "a sweep acts",
        "service/app/sweep_request.py",
        "        dry_run=True,\n",
        "        dry_run=False,\n",
        "tests/app/test_sweeps.py::test_a_due_sweep_makes_one_dry_run_and_says_what_it_found",
    ),
    one(
        "all places are taken by sweeps",
        "service/app/sweep_places.py",
        "    free = MOST_AT_ONCE - sum(awake.values())\n",
        "    free = 10_000\n",
        SWEPT,
    ),
)

TOLD = (
    one(
        "a notice that was sent is sent again",
        TELL,
        "    done = [telling.sent(now) for telling in parcel.tellings]\n",
        "    done = list(parcel.tellings) if now else []\n",
        "tests/app/test_notices.py::test_a_gate_and_the_end_of_its_run_are_told",
    ),
    one(
        "an event makes a notice at each look",
        FOLLOW,
        "            transaction.move_notice_cursor(read.cursor, last)\n",
        "",
        "tests/app/test_notices.py::test_after_a_stop_nothing_is_lost_and_nothing_is_told_twice",
    ),
    one(
        "a notice is sent under another name each time",
        NOTICE,
        '        return f"{self.notice_id}.{self.receiver}"\n',
        '        return f"{self.notice_id}.{self.receiver}.{self.attempts}"\n',
        "tests/app/test_notices.py::test_a_gate_and_the_end_of_its_run_are_told",
    ),
    one(
        "a gate that was answered is told as open",
        TELL,
        "    if notice.kind is not NoticeKind.GATE:\n        return",
        "    if True:\n        return",
        "tests/app/test_notices.py::test_a_stuck_node_and_a_pause_are_told_and_a_dry_run_of_a_person_is_not",
    ),
    one(
        "what could not be told is not tried again",
        NOTICE,
        "        if final or self.attempts >= len(PAUSES):\n",
        "        if True:\n",
        "tests/app/test_notices.py::test_a_receiver_that_refuses_is_tried_again_and_given_up_while_others_are_told",
    ),
    one(
        "what nobody takes is tried for ever",
        NOTICE,
        "        if final or self.attempts >= len(PAUSES):\n",
        "        if final:\n",
        "tests/unit/test_notice.py::test_a_telling_is_tried_again_after_longer_and_longer_pauses_and_then_given_up",
    ),
    one(
        "a fresh installation tells the past",
        FOLLOW,
        "            return _Read(None, newest[0].seq if newest else 0)\n",
        "            return _Read(None, 0 if newest else 0)\n",
        "tests/app/test_notices.py::test_a_fresh_installation_tells_nothing_of_the_past_and_who_joins_later_is_not_told_it",
    ),
    one(
        "what a program is told is not signed",
        "service/notify/webhook.py",
        '        "webhook-signature": " ".join(f"v1,{one.decode()}" for one in signed),\n',
        '        "webhook-signature": "",\n',
        "tests/notify/test_senders.py::test_a_program_can_prove_who_sent_it_with_either_secret_of_a_change",
    ),
    one(
        "a chat is followed elsewhere",
        "service/notify/webhook.py",
        "follow_redirects=False",
        "follow_redirects=True",
        "tests/notify/test_senders.py::test_a_program_that_does_not_take_it_is_told_by_its_status",
    ),
    Mutant(
        "a storm is told message by message",
        (Edit(NOTICE, "len(some) > MOST_SINGLE or (len(due) > most and len(some) > 1)", "False"),),
        (NOTICES,),
    ),
)

TELLING = (*SECRETS, *FLEET, *TOLD)
