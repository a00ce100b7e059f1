"""Text of nodes and persons, and moments, as people are shown them."""

from datetime import UTC, datetime


def shown(text: str) -> str:
    """Return text in which every character that is not shown as itself, tab and line end apart, is escaped.

    Output of a sick node must not move the cursor of the person who looks at it (CWE-150).
    """
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


def shown_moment(moment: datetime) -> str:
    """Return a moment as it stands in a sentence: to the second, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
