from service.cli.looking import unconfined_lines


def test_show_names_each_look_that_was_not_confined() -> None:
    attempts = [
        {"script": "check", "reason": "Its output was cut. Unconfined: its system calls are not filtered."},
        {"script": "run", "reason": ""},
    ]
    run = {"nodes": [{"node": "gpu-01", "steps": [{"id": "abort", "attempts": attempts}, {"id": "well"}]}]}

    lines = list(unconfined_lines(run))

    assert lines == ["gpu-01 abort check was unconfined: its system calls are not filtered"]
