"""What a survey shows at a terminal: what was not seen says why, and is never shown as nothing."""

import pytest

from service.cli.surveying import show_survey

UNASKED = [
    {"kind": "pods", "sight": "not_asked", "why": "the node has no k8s_name"},
    {"kind": "gpu_processes", "sight": "not_asked", "why": "there is no GPU driver"},
]
USERS = {"kind": "users", "sight": "could_not_look", "why": "no answer"}


def test_what_nobody_was_asked_for_is_one_line_with_each_reason(capsys: pytest.CaptureFixture[str]) -> None:
    show_survey({"over": [], "taken_at": "2026-11-29T03:00:00Z", "parts": [*UNASKED, USERS]})

    assert capsys.readouterr().out.splitlines() == [
        "On the node at 2026-11-29T03:00:00Z, by a look that no digest binds:",
        "   Users: could not look: no answer",
        "   Not asked, so not known: pods (the node has no k8s_name), GPU processes (there is no GPU driver)",
    ]
