"""Mutants of sessions and of signing in, by a token, a provider or a proxy."""

from tools.mutants.table import Edit, Mutant, one

SESSIONS = "service/app/sessions.py"
SESSION = "service/domain/session.py"
IDENTITIES = "service/app/identities.py"
OIDC = "service/login/oidc.py"
BACK = "service/web/routes/sign_in_oidc.py"
PROXY = "service/web/proxied.py"
IN = "tests/web/test_sessions.py"
BY_OIDC = "tests/web/test_sign_in_oidc.py"
BY_PROXY = "tests/web/test_sign_in_proxy.py"

SIGNED_IN = (
    one(
        "a session that was signed out still reads",
        SESSIONS,
        "    if transaction.remove_session(session.id):\n",
        "    if True:\n",
        f"{IN}::test_signing_out_ends_the_session_wherever_its_cookie_was_copied_to",
    ),
    one(
        "signing in anew leaves the session before",
        SESSIONS,
        '            _close(transaction, old, reason="signed in anew")\n',
        "            pass\n",
        "tests/web/test_sessions.py::test_signing_in_gives_a_new_value_whatever_the_browser_came_with",
    ),
    one(
        "a session outlives its token",
        SESSION,
        "        if isinstance(self.known, Token) and self.known.revoked_at is not None:\n",
        "        if False:\n",
        "tests/web/test_sessions.py::test_a_token_that_is_revoked_or_has_expired_ends_its_sessions_at_once",
    ),
    one(
        "a session outlives the end of its token",
        SESSION,
        "        if isinstance(self.known, Token) and not self.known.valid(now):\n",
        "        if False:\n",
        "tests/web/test_sessions.py::test_a_token_that_is_revoked_or_has_expired_ends_its_sessions_at_once",
    ),
    one(
        "a session lasts for ever",
        SESSION,
        "        if now - self.opened_at >= LONGEST:\n",
        "        if False:\n",
        "tests/web/test_sessions.py::test_a_session_ends_when_it_is_idle_and_when_it_is_old",
    ),
    one(
        "an idle session lasts",
        SESSION,
        "        if now - self.seen_at >= LONGEST_IDLE:\n",
        "        if False:\n",
        "tests/web/test_sessions.py::test_a_session_ends_when_it_is_idle_and_when_it_is_old",
    ),
    one(
        "what a group may do is what it could when he signed in",
        SESSIONS,
        "    return replace(session, roles=config.roles_of(session.known.groups)), why\n",
        "    return replace(session, roles=_OLD.setdefault(session.id, config.roles_of(session.known.groups))), why\n"
        "\n\n_OLD: dict[str, frozenset] = {}\n",
        f"{BY_OIDC}::test_what_a_group_may_do_changes_at_the_next_request",
    ),
    one(
        "a session outlives its provider",
        SESSIONS,
        "config.still_vouched(session.known)",
        "True",
        "tests/web/test_sign_in_oidc.py::test_a_session_ends_when_another_provider_or_none_is_asked",
    ),
    one(
        "the cookie goes to scripts",
        "service/web/sessions.py",
        "secure=True, httponly=True,",
        "secure=True, httponly=False,",
        "tests/web/test_sessions.py::test_the_cookie_is_bound_to_this_host_and_hidden_from_scripts",
    ),
    one(
        "whoever has signed in nowhere sees pages",
        "service/web/page_guard.py",
        '            if scope["path"] in DOORS:\n                return None\n            raise\n',
        "            return None\n",
        "tests/web/test_sessions.py::test_who_has_not_signed_in_is_led_to_the_door_and_back",
    ),
    one(
        "another account takes a name",
        IDENTITIES,
        "        if same is not None:\n",
        "        if False:\n",
        "tests/web/test_sign_in_oidc.py::test_another_account_of_the_same_name_and_another_name_of_the_same_account_are_refused",
    ),
    one(
        "an account takes another name",
        IDENTITIES,
        "        if before is not None:\n            raise",
        "        if False:\n            raise",
        "tests/web/test_sign_in_oidc.py::test_another_account_of_the_same_name_and_another_name_of_the_same_account_are_refused",
    ),
    one(
        "an account is a lookalike of a token's person",
        IDENTITIES,
        "*(one.person for one in transaction.tokens())))\n",
        "))\n",
        "tests/web/test_sign_in_oidc.py::test_an_account_is_no_lookalike_of_a_person_who_has_a_token",
    ),
)

PROVIDERS = (
    one(
        "an ID token of anybody is believed",
        OIDC,
        'jwt.decode(token, _KEYS[key["kty"]].import_key(key), algorithms=list(config.algorithms))\n',
        "(got := __import__('joserfc.jws').jws.extract_compact(token.encode())) and "
        "jwt.Token(got.headers(), __import__('json').loads(got.payload))\n",
        "tests/login/test_oidc.py::test_a_signature_of_another_key_is_refused_whatever_the_header_says",
    ),
    one(
        "a nonce is not compared",
        OIDC,
        "    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), flow.nonce.encode()):\n",
        "    if not isinstance(nonce, str):\n",
        "tests/login/test_oidc.py::test_an_id_token_that_is_not_meant_for_this_signing_in_is_refused",
    ),
    one(
        "the audience of an ID token is not compared",
        OIDC,
        '        "aud": {"essential": True, "value": config.client_id},\n',
        "",
        "tests/login/test_oidc.py::test_an_id_token_that_is_not_meant_for_this_signing_in_is_refused",
    ),
    one(
        "the issuer of an ID token is not compared",
        OIDC,
        '        "iss": {"essential": True, "value": config.issuer},\n',
        "",
        "tests/login/test_oidc.py::test_an_id_token_that_is_not_meant_for_this_signing_in_is_refused",
    ),
    one(
        "the time of an ID token is not compared",
        OIDC,
        "        claims.validate(now=int(now.timestamp()), leeway=_LEEWAY)\n",
        "        claims.validate(now=int(now.timestamp()), leeway=10**9)\n",
        "tests/login/test_oidc.py::test_an_id_token_that_is_not_meant_for_this_signing_in_is_refused",
    ),
    one(
        "any algorithm of a signature will do",
        OIDC,
        "algorithms=list(config.algorithms))",
        'algorithms=["RS256", "RS384", "RS512", "PS256", "ES256", "EdDSA", "HS256", "none"])',
        "tests/login/test_oidc.py::test_an_algorithm_that_is_not_allowed_is_refused",
    ),
    one(
        "a code of another provider is redeemed",
        OIDC,
        "        _insist_on_issuer(config, metadata, issuer)\n",
        "",
        "tests/login/test_oidc.py::test_a_code_of_another_provider_is_not_redeemed",
    ),
    one(
        "a code is redeemed without the verifier",
        OIDC,
        '            "code_verifier": flow.verifier,\n',
        "",
        "tests/login/test_oidc.py::test_a_person_is_known_by_issuer_subject_name_and_groups",
    ),
    one(
        "an e-mail address that nobody has verified is a name",
        "service/login/claims.py",
        '    if config.person_claim == "email" and claims.get("email_verified") is not True:\n',
        "    if False:\n",
        "tests/login/test_oidc.py::test_an_e_mail_address_that_nobody_has_verified_is_no_name",
    ),
    one(
        "an answer of the provider counts in any browser",
        "service/web/flows.py",
        "        if not genuine or not hmac.compare_digest(begun_with.encode(), state.encode()):\n",
        "        if not genuine:\n",
        "tests/web/test_sign_in_oidc.py::test_an_answer_counts_in_no_other_browser_with_no_other_state_not_twice_and_not_late",
    ),
    one(
        "an answer of the provider needs no cookie of ours",
        "service/web/flows.py",
        "        if not genuine or not hmac.compare_digest(begun_with.encode(), state.encode()):\n",
        "        if not hmac.compare_digest(begun_with.encode(), state.encode()):\n",
        f"{BY_OIDC}::test_a_cookie_that_the_service_has_not_made_begins_no_signing_in",
    ),
    one(
        "an answer of the provider counts twice",
        "service/web/flows.py",
        "        self._use_once(state, now=now)\n",
        "",
        "tests/web/test_sign_in_oidc.py::test_an_answer_counts_in_no_other_browser_with_no_other_state_not_twice_and_not_late",
    ),
    one(
        "an answer of the provider counts late",
        "service/web/flows.py",
        "        if not 0 <= now.timestamp() - int(at) <= LIVES.total_seconds():\n",
        "        if False:\n",
        "tests/web/test_sign_in_oidc.py::test_an_answer_counts_in_no_other_browser_with_no_other_state_not_twice_and_not_late",
    ),
    Mutant(
        "signing in leads anywhere",
        (
            Edit(BACK, "begun = _flows(request).begin(safe_next(to),", "begun = _flows(request).begin(to,"),
            Edit(BACK, "led = RedirectResponse(safe_next(to), 303)", "led = RedirectResponse(to, 303)"),
        ),
        (f"{BY_OIDC}::test_signing_in_by_a_provider_leads_to_no_other_place_than_our_pages",),
    ),
    one(
        "the header of a proxy is believed without its secret",
        PROXY,
        " or not _has_secret(config, headers):",
        ":",
        f"{BY_PROXY}::test_a_header_without_the_secret_is_as_if_it_were_not_there",
    ),
    one(
        "the header of a proxy is believed from any machine",
        PROXY,
        'if not _comes_from(config, scope.get(PEER, "")) or not',
        "if not",
        f"{BY_PROXY}::test_a_header_from_another_machine_is_not_believed_whatever_it_says_of_its_own_way",
    ),
    one(
        "the machine of a proxy is the one that a header names",
        PROXY,
        'if not _comes_from(config, scope.get(PEER, "")) or not',
        'if not _comes_from(config, scope["client"][0]) or not',
        "tests/web/test_sign_in_proxy.py::test_a_header_from_another_machine_is_not_believed_whatever_it_says_of_its_own_way",
    ),
    one(
        "a session of the proxy lasts without the proxy",
        SESSIONS,
        "    if identity is None or identity.person != session.known.person:\n",
        "    if identity is None:\n        return session\n    if identity.person != session.known.person:\n",
        "tests/web/test_sign_in_proxy.py::test_a_session_lasts_only_while_the_proxy_says_the_same_person_with_a_role",
    ),
    one(
        "a session of the proxy is anybody's whom it names",
        SESSIONS,
        "    if identity is None or identity.person != session.known.person:\n",
        "    if identity is None:\n",
        "tests/web/test_sign_in_proxy.py::test_a_session_lasts_only_while_the_proxy_says_the_same_person_with_a_role",
    ),
    one(
        "a session of the proxy has the groups of its beginning",
        SESSIONS,
        "    anew = replace(session, known=identity, roles=config.roles_of(identity.groups))\n",
        "    anew = session\n",
        "tests/web/test_sign_in_proxy.py::test_a_session_lasts_only_while_the_proxy_says_the_same_person_with_a_role",
    ),
)

SIGNING_IN = (*SIGNED_IN, *PROVIDERS)
