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
OUTPUT = "tests/app/test_masked_output.py"
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
        OUTPUT,
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
        OUTPUT,
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
        JUDGED,
    ),
    one(
        "a secret at the end of what is kept of a body is cut and kept",
        RECEIVE,
        "        body=redact_bytes(incoming.body)[:KEPT_BYTES],\n",
        "        body=redact_bytes(incoming.body[:KEPT_BYTES]),\n",
        JUDGED,
    ),
    one(
        "the labels of an alert are kept as they came",
        RECEIVE,
        "        labels=redact_members(alert.labels),\n",
        "        labels=alert.labels,\n",
        JUDGED,
    ),
    one(
        "the annotations of an alert are kept as they came",
        RECEIVE,
        "        annotations=redact_members(alert.annotations),\n",
        "        annotations=alert.annotations,\n",
        JUDGED,
    ),
    one(
        "the link of an alert is kept as it came",
        RECEIVE,
        "        link=redact(alert.link),\n",
        "        link=alert.link,\n",
        JUDGED,
        PLANTED,
    ),
    one(
        "what a journal says is kept as it came",
        "service/domain/by_hand_play.py",
        "    streams = {stream: mask(line.unpacked(stream)) for stream in Stream}\n",
        "    streams = {stream: line.unpacked(stream) for stream in Stream}\n",
        "tests/app/test_import.py",
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
        "tests/web/test_pages.py",
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
        SWEPT,
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
        FOUND,
    ),
    one(
        "a sweep acts",
        "service/app/sweep_request.py",
        "        dry_run=True,\n",
        "        dry_run=False,\n",
        SWEPT,
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
        NOTICES,
    ),
    one(
        "an event makes a notice at each look",
        FOLLOW,
        "            transaction.move_notice_cursor(read.cursor, last)\n",
        "",
        NOTICES,
    ),
    one(
        "a notice is sent under another name each time",
        NOTICE,
        '        return f"{self.notice_id}.{self.receiver}"\n',
        '        return f"{self.notice_id}.{self.receiver}.{self.attempts}"\n',
        NOTICES,
    ),
    one(
        "a gate that was answered is told as open",
        TELL,
        "    if notice.kind is not NoticeKind.GATE:\n        return",
        "    if True:\n        return",
        NOTICES,
    ),
    one(
        "what could not be told is not tried again",
        NOTICE,
        "        if final or self.attempts >= len(PAUSES):\n",
        "        if True:\n",
        NOTICES,
    ),
    one(
        "what nobody takes is tried for ever",
        NOTICE,
        "        if final or self.attempts >= len(PAUSES):\n",
        "        if final:\n",
        "tests/unit/test_notice.py",
    ),
    one(
        "a fresh installation tells the past",
        FOLLOW,
        "            return _Read(None, newest[0].seq if newest else 0)\n",
        "            return _Read(None, 0 if newest else 0)\n",
        NOTICES,
    ),
    one(
        "what a program is told is not signed",
        "service/notify/webhook.py",
        '        "webhook-signature": " ".join(f"v1,{one.decode()}" for one in signed),\n',
        '        "webhook-signature": "",\n',
        "tests/notify/test_senders.py",
    ),
    one(
        "a chat is followed elsewhere",
        "service/notify/webhook.py",
        "follow_redirects=False",
        "follow_redirects=True",
        "tests/notify/test_senders.py",
    ),
    Mutant(
        "a storm is told message by message",
        (Edit(NOTICE, "len(some) > MOST_SINGLE or (len(due) > most and len(some) > 1)", "False"),),
        (NOTICES,),
    ),
)

TELLING = (*SECRETS, *FLEET, *TOLD)
