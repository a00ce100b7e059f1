"""Mutants of the doors of the web: forms of other sites, bounds on bodies, connections and rates, deny by default."""

from tools.mutants.table import one

GUARD = "service/web/page_guard.py"
LIMITS = "service/web/limits.py"
CONNECTIONS = "service/web/connections.py"
RATES = "service/web/rates.py"
AUTH = "service/web/auth.py"
PAGES = "tests/web/test_pages.py"
EDGE = "tests/web/test_edge.py"
ACCESS = "tests/web/test_access.py"

DOORS = (
    one(
        "the token of a form is not compared",
        GUARD,
        "        raise _FOREIGN\n    return form\n",
        "        pass\n    return form\n",
        f"{PAGES}::test_s12_a_form_that_is_not_of_this_session_changes_nothing",
    ),
    one(
        "where a form comes from is not asked",
        GUARD,
        "    _insist_on_origin(headers)\n",
        "",
        f"{PAGES}::test_nobody_is_signed_in_by_another_site",
    ),
    one(
        "a form of another site of the same domain is ours",
        GUARD,
        '    own = site == "same-origin" if site is not None',
        '    own = site in ("same-origin", "same-site") if site is not None',
        "tests/web/test_pages.py::test_s12_a_form_that_is_not_of_this_session_changes_nothing",
    ),
    one(
        "a form without any word of the browser is ours",
        GUARD,
        '_host(origin) == headers.get("host", "").lower() != ""',
        '_host(origin) in ("", headers.get("host", "").lower())',
        "tests/web/test_pages.py::test_s12_a_form_that_is_not_of_this_session_changes_nothing",
    ),
    one(
        "the body of a form has no bound",
        GUARD,
        "MOST_BYTES: Final = 64 * 1024\n",
        "MOST_BYTES: Final = 1024 * 1024 * 1024\n",
        "tests/web/test_pages.py::test_a_body_that_is_no_form_of_ours_is_not_read",
    ),
    one(
        "a body of unknown length has no bound",
        LIMITS,
        "                if len(body) > most_bytes:\n",
        "                if len(body) > 100 * most_bytes:\n",
        f"{EDGE}::test_a_body_of_unknown_length_is_not_read_beyond_the_limit",
    ),
    one(
        "a body of a length that is told has no bound",
        LIMITS,
        "    if int(length) > most_bytes:\n",
        "    if False:\n",
        f"{EDGE}::test_a_body_that_says_that_it_is_too_large_is_not_begun",
    ),
    one(
        "a body of the API may be as large as any",
        LIMITS,
        "MOST_BYTES = 256 * 1024\n",
        "MOST_BYTES = 1024 * 1024 * 1024\n",
        "tests/web/test_edge.py::test_a_body_that_is_too_large_is_refused",
    ),
    one(
        "a body that did not come in time is taken as it is",
        LIMITS,
        '        return errors.http_problem(408, "The body did not arrive in time.", way_out="Send it again.")\n',
        "        return bytes(body)\n",
        f"{EDGE}::test_a_body_that_does_not_come_is_not_waited_for",
    ),
    one(
        "a body of a stranger is read as far as that of a sender with a token",
        "service/web/proving.py",
        "        most = MOST_BYTES if known is None else MOST_BYTES_WITH_TOKEN\n",
        "        most = MOST_BYTES_WITH_TOKEN\n",
        "tests/web/test_webhooks.py::test_a_stranger_s_body_is_not_read_beyond_the_limit",
    ),
    one(
        "deliveries have all the memory they want",
        "service/web/proving.py",
        "        if not share.take(size, holder):\n",
        "        if False:\n",
        "tests/web/test_webhooks.py::test_more_than_can_be_held_at_once_is_sent_away_and_what_was_held_is_given_back",
    ),
    one(
        "a header is waited for without an end",
        CONNECTIONS,
        "        if bound is not None and self.loop.time()",
        "        if bound is not None and phase is not Phase.HEADER and self.loop.time()",
        "tests/web/test_connections.py::test_s15_a_header_that_drips_is_answered_with_408",
    ),
    one(
        "a body that drips after its answer is waited for",
        CONNECTIONS,
        "        if bound is not None and self.loop.time()",
        "        if bound is not None and phase is not Phase.BODY and self.loop.time()",
        "tests/web/test_connections.py::test_s15_a_body_that_drips_after_its_answer_is_not_read_for_ever",
    ),
    one(
        "an answer that nobody reads is kept",
        CONNECTIONS,
        "        if bound is not None and self.loop.time()",
        "        if bound is not None and phase is not Phase.UNREAD and self.loop.time()",
        "tests/web/test_connections.py::test_s15_an_answer_that_nobody_reads_is_given_up",
    ),
    one(
        "the usual bounds leave a header out",
        CONNECTIONS,
        "{Phase.HEADER: 9.0, Phase.BODY: 14.0,",
        "{Phase.BODY: 14.0,",
        "tests/web/test_connections.py::test_s15_there_are_fewer_connections_than_files_a_process_may_open",
    ),
    one(
        "idle connections keep others out",
        CONNECTIONS,
        "            min(idle, key=lambda each: each[0])[1].give_up()\n",
        "            self.give_up(_FULL)\n",
        "tests/web/test_connections.py::test_s15_idle_connections_keep_nobody_out",
    ),
    one(
        "a service is served without bounds on connections",
        CONNECTIONS,
        '        http=type("Bounded", (BoundedProtocol,), given),\n',
        '        http="h11",\n',
        "tests/web/test_connections.py::test_s15_a_connection_that_says_nothing_is_closed",
    ),
    one(
        "a request that ends in two ways is taken",
        "service/web/edge.py",
        '    return "content-length" in headers and "transfer-encoding" in headers\n',
        "    return False\n",
        "tests/web/test_edge.py::test_s15_a_request_that_ends_in_two_ways_is_refused_and_its_connection_with_it",
    ),
    one(
        "persons ask without a bound",
        RATES,
        "if person is None else self._persons.take(person.name)",
        "if person is None else 0",
        "tests/web/test_rates.py::test_s14_a_person_who_asks_too_much_waits_and_nobody_else_does",
    ),
    one(
        "who is not known asks without a bound",
        RATES,
        "        wait = self._addresses.take(_address(scope)) if person is None else",
        "        wait = 0 if person is None else",
        "tests/web/test_rates.py::test_s14_an_address_at_which_nobody_is_known_waits_and_probes_and_persons_do_not",
    ),
    one(
        "wrong tokens are not counted",
        RATES,
        "            self._failed.count(address, now=self._service.clock.now())\n",
        "            pass\n",
        "tests/web/test_rates.py::test_s14_ten_wrong_tokens_a_minute_and_a_good_one_is_let_through",
    ),
    one(
        "a good token is kept out by wrong ones",
        RATES,
        "        if not known and not self._failed",
        "        if not self._failed",
        "tests/web/test_rates.py::test_s14_ten_wrong_tokens_a_minute_and_a_good_one_is_let_through",
    ),
    one(
        "failures to sign in are not counted",
        "service/web/routes/sign_in.py",
        "        failed.count(address, now=now)\n",
        "",
        "tests/web/test_sessions.py::test_who_tries_many_tokens_waits_a_minute",
    ),
    one(
        "refusals of a provider are not counted",
        "service/web/routes/sign_in_oidc.py",
        "            failed.count(address, now=now)\n",
        "            pass\n",
        "tests/web/test_sign_in_oidc.py::test_whose_answers_fail_too_often_waits_a_minute",
    ),
    one(
        "a route that declares nothing is served",
        AUTH,
        "        if not (declares or harmless):\n",
        "        if False:\n",
        "tests/web/test_access.py::test_an_application_with_a_route_that_declares_nothing_is_not_built",
    ),
    one(
        "a role does what its route does not let it",
        AUTH,
        "    if not person.may(permission):\n",
        "    if False:\n",
        f"{ACCESS}::test_s03_each_role_is_let_in_where_it_belongs_and_nowhere_else",
    ),
    one(
        "all of the API is open",
        AUTH,
        "    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)\n",
        "    return path in OPEN_PATHS or path.startswith((OPEN_FOLDER, '/api'))\n",
        "tests/web/test_access.py::test_everybody_who_is_not_known_gets_the_same_answer",
    ),
    one(
        "a forwarded address is believed from anybody",
        "service/web/forwarded.py",
        "ProxyHeadersMiddleware(app, proxies)",
        'ProxyHeadersMiddleware(app, "*")',
        "tests/web/test_floor.py::test_s23_a_forwarded_address_is_believed_from_a_named_proxy_alone",
    ),
    one(
        "an answer has no policy of its own",
        "service/web/edge.py",
        "own = [pair for pair in _RAW_HEADERS if pair[0] not in set_already]",
        "own: list[tuple[bytes, bytes]] = []",
        "tests/web/test_edge.py::test_s11_every_answer_has_the_headers_of_the_house",
    ),
    one(
        "a page runs what stands in it",
        "service/web/rendering.py",
        "script-src 'self'",
        "script-src 'self' 'unsafe-inline'",
        "tests/web/test_pages.py::test_every_page_loads_nothing_but_its_own_files",
    ),
)
