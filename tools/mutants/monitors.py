"""Mutants of who has sent a delivery: signatures, their times, tokens of sources, and the certificates of SNS."""

from tools.mutants.table import one

SIGNS = "service/triggers/signatures.py"
SNS = "service/triggers/sns_signature.py"
ENVELOPE = "service/triggers/sns.py"
FETCH = "service/triggers/sns_certificates.py"
RECEIVERS = "service/triggers/receivers.py"
KNOW = "service/app/know_sender.py"
SIGNED = "tests/triggers/test_signatures.py"
HOOKS = "tests/web/test_webhooks.py"
STRANGERS = f"{HOOKS}::test_every_stranger_gets_the_same_answer_and_nothing_is_kept"

MONITORS = (
    one(
        "no signature is compared",
        SIGNS,
        "for one in given for other in right) == 0:",
        "for one in given for other in right) < 0:",
        "tests/triggers/test_signatures.py::test_a_secret_that_was_taken_away_is_known_no_longer",
    ),
    one(
        "the signature of Grafana is not compared",
        RECEIVERS,
        "                signatures.verify_grafana(body, headers, secrets=self._secrets(source), now=now)\n",
        "                pass\n",
        STRANGERS,
    ),
    one(
        "the signature of PagerDuty is not compared",
        RECEIVERS,
        "                signatures.verify_pagerduty(body, headers, secrets=self._secrets(source), now=now)\n",
        "                pass\n",
        STRANGERS,
    ),
    one(
        "the signature of Standard Webhooks is not compared",
        RECEIVERS,
        "                signatures.verify_standard(body, headers, secrets=self._secrets(source), now=now)\n",
        "                pass\n",
        STRANGERS,
    ),
    one(
        "the signature of SNS is not compared",
        RECEIVERS,
        "                verify_sns(body, headers, topics=source.topics, fetch=self._fetch, roots=roots, now=now)\n",
        "                pass\n",
        STRANGERS,
    ),
    one(
        "an Alertmanager needs no token",
        RECEIVERS,
        '                raise Unauthenticated("An Alertmanager signs nothing: it shows a token.")\n',
        "                pass\n",
        f"{SIGNED}::test_no_signature_stands_for_an_alertmanager",
    ),
    one(
        "the time of Grafana is not signed",
        SIGNS,
        '    signed = _bytes(timestamp) + b":" + body\n',
        "    signed = body\n",
        "tests/triggers/test_signatures.py::test_a_right_signature_is_known",
    ),
    one(
        "the time of Grafana is not compared",
        SIGNS,
        "    _refuse_other_times(timestamp, now=now)\n    signed = _bytes",
        "    signed = _bytes",
        "tests/triggers/test_signatures.py::test_a_signature_that_is_sent_again_later_is_refused",
    ),
    one(
        "the time of Standard Webhooks is not compared",
        SIGNS,
        "    _refuse_other_times(timestamp, now=now)\n    words =",
        "    words =",
        "tests/triggers/test_signatures.py::test_a_signature_that_is_sent_again_later_is_refused",
    ),
    one(
        "a signature is fresh for a day",
        SIGNS,
        "WINDOW = timedelta(seconds=300)",
        "WINDOW = timedelta(days=1)",
        "tests/triggers/test_signatures.py::test_a_signature_that_is_sent_again_later_is_refused",
    ),
    one(
        "the name of a delivery is not signed",
        "service/domain/standard_webhooks.py",
        'b".".join([message, timestamp, body])',
        'b".".join([timestamp, body])',
        "tests/triggers/test_signatures.py::test_a_right_signature_is_known",
    ),
    one(
        "an event of PagerDuty that was kept for a day is taken",
        "service/triggers/pagerduty.py",
        "> MAX_AGE",
        "> 1000 * MAX_AGE",
        "tests/triggers/test_pagerduty.py::test_an_event_that_somebody_has_kept_for_a_day_is_ignored",
    ),
    one(
        "a secret that could be guessed is used",
        SIGNS,
        "    if len(secret) < MIN_SECRET:\n",
        "    if False:\n",
        "tests/triggers/test_signatures.py::test_a_secret_that_could_be_guessed_is_refused_where_it_is_read",
    ),
    one(
        "a signature that names no scheme is right",
        SIGNS,
        '    given = [_bytes(word.removeprefix("v1,")) for word in words if word.startswith("v1,")]\n',
        '    given = [_bytes(word.removeprefix("v1,")) for word in words]\n',
        "tests/triggers/test_signatures.py::test_a_signature_of_another_scheme_is_refused",
    ),
    one(
        "any token of a source delivers for each",
        KNOW,
        "    if token.name != source.token or not",
        "    if not",
        "tests/web/test_webhooks.py::test_every_stranger_gets_the_same_answer_and_nothing_is_kept",
    ),
    one(
        "a token delivers without the role",
        KNOW,
        " or not token.owner.may(Permission.DELIVER):",
        ":",
        f"{HOOKS}::test_a_token_of_the_right_name_without_the_role_delivers_nothing",
    ),
    one(
        "a signature stands for the token of a source",
        KNOW,
        "    if source.token is not None:\n        raise STRANGER\n",
        "",
        f"{HOOKS}::test_a_sender_that_cannot_sign_shows_a_token_and_no_signature_stands_for_it",
    ),
    one(
        "a stranger learns why he is one",
        "service/web/proving.py",
        "        raise STRANGER from error\n",
        "        raise (error.__cause__ or error) from error\n",
        STRANGERS,
    ),
    one(
        "the topic of SNS is not compared",
        SNS,
        "    if envelope.topic not in topics:\n",
        "    if False:\n",
        "tests/triggers/test_sns_signature.py::test_what_cannot_be_of_sns_is_refused_before_anything_is_fetched",
    ),
    one(
        "SNS may sign with SHA-1",
        SNS,
        '    if envelope.signature_version != "2":\n',
        "    if False:\n",
        "tests/triggers/test_sns_signature.py::test_what_cannot_be_of_sns_is_refused_before_anything_is_fetched",
    ),
    one(
        "the time of SNS is not compared",
        SNS,
        "    _refuse_other_times(envelope, now=now)\n",
        "",
        "tests/triggers/test_sns_signature.py::test_what_cannot_be_of_sns_is_refused_before_anything_is_fetched",
    ),
    one(
        "a certificate of SNS may lie anywhere",
        SNS,
        "    if not is_certificate_url(envelope.certificate_url):\n",
        "    if False:\n",
        "tests/triggers/test_sns_signature.py::test_what_cannot_be_of_sns_is_refused_before_anything_is_fetched",
    ),
    one(
        "a certificate of SNS is fetched from anywhere",
        FETCH,
        "        if not is_certificate_url(url):\n",
        "        if False:\n",
        "tests/triggers/test_sns_certificates.py::test_an_address_that_is_none_of_sns_is_not_asked",
    ),
    one(
        "a certificate of SNS may lie in rented storage",
        ENVELOPE,
        r'_HOST = r"https://sns\.[a-zA-Z0-9-]{3,}\.amazonaws\.com(?:\.cn)?"',
        r'_HOST = r"https://[a-zA-Z0-9.-]{3,}\.amazonaws\.com(?:\.cn)?"',
        "tests/triggers/test_sns_signature.py::test_certificates_come_from_sns_alone",
    ),
    one(
        "a certificate above may lie anywhere",
        FETCH,
        "if _ABOVE.fullmatch(address)), None)",
        "), None)",
        "tests/triggers/test_sns_certificates.py::test_an_authority_at_a_foreign_address_is_not_asked",
    ),
    one(
        "no authority stands behind a certificate of SNS",
        SNS,
        "    except VerificationError:\n        return False\n",
        "    except VerificationError:\n        return True\n",
        "tests/triggers/test_sns_signature.py::test_a_certificate_of_a_stranger_is_refused",
    ),
    one(
        "a certificate of any host is one of SNS",
        SNS,
        "    if not any(_is_of(leaf, others, name=name, roots=roots, now=now) for name in _names(url)):\n",
        "    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value\n"
        "    if not any(_is_of(leaf, others, name=one.value, roots=roots, now=now) for one in names):\n",
        "tests/triggers/test_sns_signature.py::test_a_certificate_of_another_name_is_refused",
    ),
    one(
        "a field of SNS is not signed",
        ENVELOPE,
        '        "MessageId": envelope.message_id,\n',
        "",
        "tests/triggers/test_sns_signature.py::test_what_sns_has_signed_is_believed",
    ),
    one(
        "a subscription is shown with any address",
        ENVELOPE,
        "    return len(url) <= 2000 and _CONFIRM_URL.fullmatch(url) is not None\n",
        "    return len(url) <= 2000\n",
        "tests/triggers/test_cloudwatch.py::test_a_confirmation_at_a_foreign_address_is_refused",
    ),
)
