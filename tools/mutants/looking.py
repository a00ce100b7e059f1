"""Mutants of the confinement of scripts that only look."""

from tools.mutants.table import one

CONFINE = "service/executors/confine.sh"
ENVELOPE = "service/executors/envelope.py"
RUNNER = "service/executors/node_runner.sh"
CONFINED = "tests/executors/test_confinement.py"
LYING = f"{CONFINED}::test_a_lying_check_touches_nothing"
LOOSE = f"{CONFINED}::test_where_nothing_can_confine_the_report_says_so"

LOOKING = (
    one(
        "a look is not confined",
        ENVELOPE,
        "    if order.acting or order.endpoint.confine is Confine.OFF:\n",
        "    if True:\n",
        LYING,
    ),
    one(
        "mounts of a look are not read-only",
        CONFINE,
        "  call mounts ns mount_setattr -100 =/ 32768 x01000000000000000000000000000000000008",
        "  call mounts ns mount_setattr -100 =/ 32768 x00000000000000000000000000000000000008",
        LYING,
    ),
    one(
        "a look stays among the mounts of the node",
        CONFINE,
        '  call ns ns unshare "$1"\n',
        "",
        "tests/executors/test_confinement.py::test_a_lying_check_touches_nothing",
    ),
    one(
        "a look stays root",
        CONFINE,
        '  call user user setresuid "$1" "$1" "$1"\n',
        "",
        LYING,
    ),
    one(
        "a look stays in the groups of root",
        CONFINE,
        '  call user user setgroups "$((${#groups} / 8))" "x$groups"\n',
        "",
        "tests/executors/test_confinement.py::test_containers_answer_only_a_step_that_says_that_it_asks_them",
    ),
    one(
        "a look keeps every capability",
        CONFINE,
        '  call user user capset x2205082000000000 "x$low$low$low$high$high$high"\n',
        "",
        LYING,
    ),
    one(
        "a look may send signals to others",
        CONFINE,
        "  keep_capabilities 2 18 19 34\n",
        "  keep_capabilities 2 5 18 19 34\n",
        LYING,
    ),
    one(
        "a look may write to files of others",
        CONFINE,
        "  keep_capabilities 2 18 19 34\n",
        "  keep_capabilities 1 2 18 19 34\n",
        LYING,
    ),
    one(
        "a look may do what administers the machine",
        CONFINE,
        "  keep_capabilities 2 18 19 34\n",
        "  keep_capabilities 2 18 19 21 34\n",
        "tests/executors/test_confinement.py::test_a_kernel_that_cannot_make_mounts_read_only_is_named_and_its_lying_check_does_little",
    ),
    one(
        "no system call is filtered",
        CONFINE,
        '  call filter privileges seccomp 1 0 "p$filter"\n',
        "",
        "tests/executors/test_confinement.py::test_a_lying_check_touches_nothing",
    ),
    one(
        "a program gives a look new rights",
        CONFINE,
        "  call privileges privileges prctl 38 1 0 0 0\n",
        "",
        "tests/executors/test_confinement.py::test_a_lying_check_touches_nothing",
    ),
    one(
        "the numbers of another machine pass the filter",
        CONFINE,
        "  filter+=15000100$machine$deny\n",
        "",
        "tests/executors/test_confinement_filter.py::test_no_call_passes_by_the_numbers_of_another_machine",
    ),
    one(
        "a look makes namespaces",
        CONFINE,
        "'2000000010000000450000010000027e'$deny$allow # with",
        "'20000000100000004500000100000000'$deny$allow # with",
        "tests/executors/test_confinement_filter.py::test_a_process_may_be_made_and_a_namespace_not",
    ),
    one(
        "a look clears the log of the kernel",
        CONFINE,
        "  filter+='15000300030000001500020009000000150001000a000000'$deny$allow\n",
        "  filter+='15000300030000001500020009000000150001000a000000'$allow$allow\n",
        "tests/executors/test_confinement_filter.py::test_the_log_of_the_kernel_may_be_read_and_not_cleared",
    ),
    one(
        "a look tells a device to act",
        CONFINE,
        "  filter+='150002000069000015000100004c00001500000100530000'$deny\n",
        "  filter+='150002000069000015000100004c00001500000100530000'$allow\n",
        "tests/executors/test_confinement_filter.py::test_a_device_that_was_opened_to_be_read_is_not_told_to_act",
    ),
    one(
        "what a look leaves behind lives on",
        CONFINE,
        '    [ -n "$found" ] || return 0\n',
        "    return 0\n",
        f"{CONFINED}::test_nothing_of_a_confined_script_outlives_it",
    ),
    one(
        "a look that was not confined says nothing of it",
        CONFINE,
        '    record unconfined ${must:+refused} "$said"\n',
        "",
        LOOSE,
    ),
    one(
        "a look that must be confined is played all the same",
        CONFINE,
        '    [ -z "$must" ] || exit 126\n',
        "",
        CONFINED,
    ),
    one(
        "the node does not tell what did not hold",
        RUNNER,
        '  recall unconfined why && word unconfined "${why//[!a-z0-9: ]/}"\n',
        "",
        LOOSE,
    ),
    one(
        "a report does not say what did not hold",
        "service/executors/frames.py",
        '    loose = reasons.unconfined(frame.word("unconfined").split())\n',
        '    loose = ""\n',
        "tests/executors/test_frames.py",
    ),
    one(
        "any look asks containers",
        CONFINE,
        "  [[ \" $reads \" == *' containers '* ]] || return 0\n",
        "",
        f"{CONFINED}::test_containers_answer_only_a_step_that_says_that_it_asks_them",
    ),
)
