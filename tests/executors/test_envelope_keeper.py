"""Who waits for a script outlives whatever it hears of its children."""

import re

from service.executors.envelope import node_runner

#: What the keeper calls before it hears of its children or when it no longer does, and what is a process of its own.
APART = {"open_pipe", "become_script", "watch", "sweep", "end_rest"}
FUNCTION = re.compile(r"^(\w+)\(\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
#: The text of these is read when they are met, and not with the function that they stand in.
READ_WHEN_MET = re.compile(r"\$\((?!\()|<\(|>\(|`")


def test_the_keeper_meets_no_command_substitution_while_a_trap_may_come() -> None:
    # Bash 5.2 lets a trap run while it reads the text of one; then it takes the rest for an error of syntax and ends.
    bodies = dict(FUNCTION.findall(node_runner().decode()))

    reached, left = set[str](), ["keep"]
    while left:
        name = left.pop()
        reached.add(name)
        words = set(re.findall(r"\w+", bodies[name]))
        left += [other for other in words & set(bodies) if other not in reached | APART]

    assert {"copy", "take_block", "copy_block", "note_end", "ring"} <= reached
    assert [name for name in sorted(reached) if READ_WHEN_MET.search(bodies[name])] == []
