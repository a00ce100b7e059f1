"""Mutants of the doors of the web: forms of other sites, bounds on bodies, connections and rates, deny by default."""

from tools.mutants.table import one

GUARD = "service/web/page_guard.py"
LIMITS = "service/web/limits.py"
CONNECTIONS = "service/web/connections.py"
RATES = "service/web/rates.py"
AUTH = "service/web/auth.py"
PAGES = "tests/web/test_pages.py"
EDGE = "tests/web/test_edge.py"
BOUNDS = "tests/web/test_connections.py"
ACCESS = "tests/web/test_access.py"
RATE = "tests/web/test_rates.py"
HOOKS = "tests/web/test_webhooks.py"
IN = "tests/web/test_sessions.py"

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
        PAGES,
        "tests/web/test_floor.py",
    ),
    one(
        "a form without any word of the browser is ours",
        GUARD,
        '_host(origin) == headers.get("host", "").lower() != ""',
        '_host(origin) in ("", headers.get("host", "").lower())',
        PAGES,
    ),
    one(
        "the body of a form has no bound",
        GUARD,
        "MOST_BYTES: Final = 64 * 1024\n",
        "MOST_BYTES: Final = 1024 * 1024 * 1024\n",
        PAGES,
    ),
    one(
        "a body of unknown length has no bound",
        LIMITS,
        "                if len(body) > most_bytes:\n",
        "                if False:\n",
        f"{EDGE}::test_a_body_of_unknown_length_is_not_read_beyond_the_limit",
    ),
    one(
        "a body of a length that is told has no bound",
        LIMITS,
        "    if int(length) > most_bytes:\n",
        "    if False:\n",
        EDGE,
    ),
    one(
        "a body of the API may be as large as any",
        LIMITS,
        "MOST_BYTES = 256 * 1024\n",
        "MOST_BYTES = 1024 * 1024 * 1024\n",
        EDGE,
    ),
    one(
        "a body is waited for without an end",
        LIMITS,
        "        async with asyncio.timeout(longest_wait.total_seconds()):\n",
        "        async with asyncio.timeout(None):\n",
        f"{EDGE}::test_a_body_that_does_not_come_is_not_waited_for",
    ),
    one(
        "a body of a stranger is read as far as that of a sender with a token",
        "service/web/proving.py",
        "        most = MOST_BYTES if known is None else MOST_BYTES_WITH_TOKEN\n",
        "        most = MOST_BYTES_WITH_TOKEN\n",
        HOOKS,
    ),
    one(
        "deliveries have all the memory they want",
        "service/web/proving.py",
        "        if not share.take(size, holder):\n",
        "        if False:\n",
        HOOKS,
    ),
    one(
        "a header is waited for without an end",
        CONNECTIONS,
        "        if bound is not None and self.loop.time()",
        "        if bound is not None and phase is not Phase.HEADER and self.loop.time()",
        BOUNDS,
    ),
    one(
        "a body that drips after its answer is waited for",
        CONNECTIONS,
        "        if bound is not None and self.loop.time()",
        "        if bound is not None and phase is not Phase.BODY and self.loop.time()",
        BOUNDS,
    ),
    one(
        "an answer that nobody reads is kept",
        CONNECTIONS,
        "        if bound is not None and self.loop.time()",
        "        if bound is not None and phase is not Phase.UNREAD and self.loop.time()",
        BOUNDS,
    ),
    one(
        "the usual bounds leave a header out",
        CONNECTIONS,
        "{Phase.HEADER: 9.0, Phase.BODY: 14.0,",
        "{Phase.BODY: 14.0,",
        BOUNDS,
    ),
    one(
        "idle connections keep others out",
        CONNECTIONS,
        "            min(idle, key=lambda each: each[0])[1].give_up()\n",
        "            self.give_up(_FULL)\n",
        BOUNDS,
    ),
    one(
        "a service is served without bounds on connections",
        CONNECTIONS,
        '        http=type("Bounded", (BoundedProtocol,), given),\n',
        '        http="h11",\n',
        BOUNDS,
    ),
    one(
        "a request that ends in two ways is taken",
        "service/web/edge.py",
        '    return "content-length" in headers and "transfer-encoding" in headers\n',
        "    return False\n",
        EDGE,
    ),
    one(
        "persons ask without a bound",
        RATES,
        "if person is None else self._persons.take(person.name)",
        "if person is None else 0",
        RATE,
    ),
    one(
        "who is not known asks without a bound",
        RATES,
        "        wait = self._addresses.take(_address(scope)) if person is None else",
        "        wait = 0 if person is None else",
        RATE,
    ),
    one(
        "wrong tokens are not counted",
        RATES,
        "            self._failed.count(address, now=self._service.clock.now())\n",
        "            pass\n",
        RATE,
    ),
    one(
        "a good token is kept out by wrong ones",
        RATES,
        "        if not known and not self._failed",
        "        if not self._failed",
        RATE,
    ),
    one(
        "failures to sign in are not counted",
        "service/web/routes/sign_in.py",
        "        failed.count(address, now=now)\n",
        "",
        IN,
    ),
    one(
        "refusals of a provider are not counted",
        "service/web/routes/sign_in_oidc.py",
        "            failed.count(address, now=now)\n",
        "            pass\n",
        "tests/web/test_sign_in_oidc.py",
    ),
    one(
        "a route that declares nothing is served",
        AUTH,
        "        if not (declares or harmless):\n",
        "        if False:\n",
        ACCESS,
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
        ACCESS,
    ),
    one(
        "a forwarded address is believed from anybody",
        "service/web/forwarded.py",
        "ProxyHeadersMiddleware(app, proxies)",
        'ProxyHeadersMiddleware(app, "*")',
        "tests/web/test_floor.py",
        "tests/web/test_sign_in_proxy.py",
    ),
    one(
        "an answer has no policy of its own",
        "service/web/edge.py",
        "own = [pair for pair in _RAW_HEADERS if pair[0] not in set_already]",
        "own: list[tuple[bytes, bytes]] = []",
        EDGE,
    ),
    one(
        "a page runs what stands in it",
        "service/web/rendering.py",
        "script-src 'self'",
        "script-src 'self' 'unsafe-inline'",
        PAGES,
    ),
)
