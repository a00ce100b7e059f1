"""Mutants of tokens and rights."""

from tools.mutants.table import one

TOKEN = "service/domain/person.py"
REACH = "service/domain/reach.py"
RIGHTS = "service/domain/rights.py"
PATHS = "tests/app/test_rights.py::test_no_path_leads_past_the_rights_or_the_reach_of_a_token"

TOKENS = (
    one(
        "the end of a token is not compared",
        TOKEN,
        "self.revoked_at is None and (self.expires_at is None or now < self.expires_at)",
        "self.revoked_at is None",
        "tests/web/test_access.py::test_everybody_who_is_not_known_gets_the_same_answer",
    ),
    one(
        "the revocation of a token is not compared",
        TOKEN,
        "self.revoked_at is None and (self.expires_at is None or now < self.expires_at)",
        "self.expires_at is None or now < self.expires_at",
        "tests/web/test_access.py::test_a_token_that_is_revoked_is_useless_at_once",
    ),
    one(
        "a note of the use of a token undoes its revocation",
        "service/app/tokens.py",
        "transaction.save_token(replace(token, last_used_at=now))\n",
        "transaction.save_token(replace(token, last_used_at=now, revoked_at=None))\n",
        "tests/web/test_access.py::test_a_token_that_is_used_while_it_is_revoked_stays_revoked",
    ),
    one(
        "the runbooks of a token are not compared",
        REACH,
        "_within(self.runbooks, None if runbook is None else (runbook,)) and _within(self.pools, pools)",
        "_within(self.pools, pools)",
        "tests/unit/test_rights.py::test_a_reach_covers_what_one_of_its_globs_names",
    ),
    one(
        "the pools of a token are not compared",
        REACH,
        "_within(self.runbooks, None if runbook is None else (runbook,)) and _within(self.pools, pools)",
        "_within(self.runbooks, None if runbook is None else (runbook,))",
        "tests/unit/test_rights.py::test_a_reach_covers_what_one_of_its_globs_names",
    ),
    one(
        "a token reaches everything",
        TOKEN,
        "return Person(self.person, self.roles, self.reach)",
        "return Person(self.person, self.roles)",
        "tests/web/test_rights.py::test_a_token_for_another_pool_reads_everything_and_acts_on_nothing",
    ),
    one(
        "a token lives for ever when nothing is said",
        "service/app/tokens.py",
        "        return now + (LONGEST if only_delivers else USUAL)\n",
        "        return None\n",
        "tests/cli/test_database.py::test_tokens_are_listed_with_person_roles_and_end",
    ),
    one(
        "a token of a person lives as long as anybody says",
        "service/app/tokens.py",
        "    if expires > now + LONGEST:\n",
        "    if False:\n",
        "tests/cli/test_database.py::test_what_is_refused_exits_2_and_makes_no_database",
    ),
    one(
        "a token is made for a lookalike of a person",
        "service/app/tokens.py",
        "        _refuse_lookalike(known, token)\n",
        "",
        "tests/app/test_self_approval.py::test_another_spelling_of_his_name_is_no_second_person",
    ),
)

RIGHTS_ASKED = (
    one(
        "the reach of a token is not asked",
        RIGHTS,
        "        looks += [_reach(person, about=about), _rights(",
        "        looks += [_rights(",
        PATHS,
    ),
    one(
        "the rights of the policy are not asked",
        RIGHTS,
        "        looks += [_reach(person, about=about), _rights(person, permission, about=about, rights=rights)]",
        "        looks += [_reach(person, about=about)]",
        PATHS,
    ),
    one(
        "a right is for every pool",
        RIGHTS,
        "self.reach.covers(about.runbook, about.pools)",
        "Reach(self.reach.runbooks).covers(about.runbook, about.pools)",
        PATHS,
    ),
    one(
        "a right is for every runbook",
        RIGHTS,
        "self.reach.covers(about.runbook, about.pools)",
        "Reach((), self.reach.pools).covers(about.runbook, about.pools)",
        "tests/unit/test_rights.py::test_an_entry_lets_whom_it_names_do_what_it_says_where_it_reaches",
    ),
    one(
        "a right is for everything that can be done",
        RIGHTS,
        "        return permission in self.may and self.reach",
        "        return self.reach",
        "tests/unit/test_rights.py::test_an_entry_lets_whom_it_names_do_what_it_says_where_it_reaches",
    ),
    one(
        "a right is for everybody",
        RIGHTS,
        "        return bool(self.who & ({EVERYBODY, person.name} | groups))\n",
        "        return True\n",
        "tests/unit/test_rights.py::test_an_entry_lets_whom_it_names_do_what_it_says_where_it_reaches",
    ),
    one(
        "a group is taken by whoever is called so",
        RIGHTS,
        '        groups = {f"{GROUP}{group}" for group in person.groups}\n',
        '        groups = {f"{GROUP}{group}" for group in (*person.groups, person.name)}\n',
        "tests/unit/test_rights.py::test_a_group_cannot_be_taken_by_a_name",
    ),
    one(
        "rights that name nobody refuse nobody",
        RIGHTS,
        "    if rights is None:\n",
        "    if not rights:\n",
        PATHS,
    ),
    one(
        "a gate is judged by the pools of now",
        "service/app/decide.py",
        "        pools = transaction.planned_pools([gate.node_run_id])[gate.node_run_id]\n",
        "        pools = frozenset(service.inventory.current().nodes[gate.node].pools)\n",
        "tests/app/test_rights.py::test_a_gate_is_judged_by_the_pools_of_its_plan_whatever_the_inventory_says_by_now",
    ),
    one(
        "of many nodes only the first is asked about",
        "service/app/insist.py",
        "        if (node_run.runbook, about.pools or frozenset()) not in seen:\n",
        "        if not seen:\n",
        "tests/app/test_rights.py::test_one_node_of_many_that_is_out_of_reach_refuses_the_whole_request",
    ),
    one(
        "anybody who may request cancels",
        "service/app/cancel_run.py",
        "        insist_on_nodes(service, person, Permission.CANCEL, node_runs=node_runs)\n",
        "",
        PATHS,
    ),
    one(
        "anybody takes a node over",
        "service/app/request_run.py",
        "    insist(service, person, Permission.CANCEL, about=about_node_run(holder))\n",
        "",
        "tests/app/test_rights.py::test_whoever_takes_a_node_over_needs_the_right_to_end_what_waits_there",
    ),
    one(
        "anybody resolves",
        "service/app/resolve.py",
        "        insist(service, person, Permission.RESOLVE, about=about_node_run(node_run))\n",
        "",
        "tests/app/test_rights.py::test_a_stuck_node_is_resolved_by_whom_a_right_names",
    ),
    one(
        "rights that became wrong are none",
        "service/triggers/policy_file.py",
        "else read_rights(entry.rights, document, str(path))\n",
        "else tuple(read_rights(entry.rights, document, str(path)))[1:] or None\n",
        "tests/triggers/test_policy_file.py::test_rights_are_read_with_their_lines_and_a_role_stands_for_all_that_it_acts_with",
    ),
)

PERSONS = (*TOKENS, *RIGHTS_ASKED)
