"""Text of nodes and persons, as people are shown it."""


def shown(text: str) -> str:
    """Return text in which every character that is not shown as itself, tab and line end apart, is escaped.

    Output of a sick node must not move the cursor of the person who looks at it (CWE-150).
    """
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)
