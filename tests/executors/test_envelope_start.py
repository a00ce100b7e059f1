"""What a script finds when it starts on the node, and how its end is told."""

import base64
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from service.domain.script import Report, ReportState, Stream, render
from service.executors import envelope
from service.executors.frames import SHELL_ENDED, Conversation
from service.executors.local import LocalExecutor
from tests.executors.envelope_place import BOOT, HERE, Heard, Place, order

pytestmark = pytest.mark.needs_root


@pytest.mark.parametrize("code", [0, 1, 2, 77, 126, 137, 143, 194, 255])
def test_an_exit_code_is_told_as_it_is(place: Place, code: int) -> None:
    report = place.start(order(f"exit {code}"))

    assert (report.state, report.exit_code, report.signal) == (ReportState.FINISHED, code, None)


@pytest.mark.parametrize("number", [1, 6, 9, 13, 15])
def test_a_signal_is_not_taken_for_an_exit_code(place: Place, number: int) -> None:
    report = place.start(order(f"kill -{number} $$"))

    assert (report.state, report.exit_code, report.signal, report.ended_by_us) == (
        ReportState.FINISHED,
        None,
        number,
        False,
    )


def test_a_report_says_who_when_and_where(place: Place) -> None:
    before = datetime.now(UTC)

    report = place.start(order("printf 12345; printf 123 >&2"))

    after = datetime.now(UTC)
    assert report.facts is not None
    assert report.started_at is not None
    assert report.finished_at is not None
    slack = timedelta(seconds=1)
    assert before - slack <= report.started_at <= report.finished_at <= report.facts.clock <= after + slack
    assert (report.boot_id, report.facts.boot_id, report.facts.uid) == (BOOT, BOOT, 0)
    assert (report.stdout_bytes, report.stderr_bytes, report.truncated, report.reason) == (5, 3, False, "")


def test_a_script_that_stops_itself_has_not_ended(place: Place) -> None:
    stopped = "until grep -q '^State:.T' /proc/$$/status; do sleep 0.05; done"

    report = place.start(order(f"({stopped}; kill -CONT $$) & kill -STOP $$; echo awake; exit 4"))

    assert (report.state, report.exit_code) == (ReportState.FINISHED, 4)


def test_a_script_has_no_input(place: Place) -> None:
    heard = Heard()

    place.start(order("cat; read -r line || echo nothing to read"), heard)

    assert heard.text() == b"nothing to read\n"


def test_a_script_has_a_clean_environment(place: Place) -> None:
    heard = Heard()
    given = order("env -0", first_boot_id="first", last_boot_id="last")

    place.start(given, heard)

    found = dict(line.split("=", 1) for line in heard.text().decode().split("\0") if line)
    found.pop("_")
    found.pop("SHLVL")
    assert found == {
        "PATH": HERE.path,
        "HOME": "/root",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "PWD": "/",
        "UNSTICK_RUN_ID": "run-1",
        "UNSTICK_STEP": "look",
        "UNSTICK_ATTEMPT": given.attempt_id,
        "UNSTICK_TARGETS": f"/run/unstick/{given.attempt_id}/targets",
        "UNSTICK_BOOT_ID": "first",
        "UNSTICK_LAST_BOOT_ID": "last",
    }


def test_the_first_look_sees_the_boot_of_the_node(place: Place) -> None:
    heard = Heard()

    place.start(order('printf %s "$UNSTICK_BOOT_ID"'), heard)

    assert heard.text().decode() == BOOT


def test_a_script_runs_in_a_session_and_a_group_of_its_own(place: Place) -> None:
    heard = Heard()
    # Without a pipe: the shell may still hold its ends while `ls` looks.
    text = "umask; pwd; ls -x /proc/$$/fd; read -r _ _ _ _ group session _ </proc/$$/stat; "
    text += 'echo "$(($$ == group)) $((session == group))"'

    place.start(order(text), heard)

    # The descriptor 255 is bash's own, for the script it reads. The session is that of the watchdog.
    assert heard.text().decode().split() == ["0022", "/", "0", "1", "2", "255", "1", "0"]


@pytest.mark.parametrize("ignored", [(), (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP)])
def test_a_script_hears_the_signals_that_whoever_started_the_envelope_ignores(
    place: Place, ignored: tuple[signal.Signals, ...]
) -> None:
    heard = Heard()
    executor = LocalExecutor(prefix=[*place.prefix, *ignoring(ignored)])

    look = "ignored=0x$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status); echo $((ignored & 0x7fffffff))"

    executor.start(order(f"{look}; yes | head -n 1; echo ${{PIPESTATUS[0]}}"), heard)
    executor.close()

    assert heard.text().decode() == "0\ny\n141\n"  # 141: ended by SIGPIPE


def ignoring(signals: tuple[signal.Signals, ...]) -> list[str]:
    """Return what starts a program with signals ignored, as nohup does, or with none."""
    code = "import os, signal, sys; [signal.signal(number, signal.SIG_DFL) for number in (1, 2, 3, 13, 25)]; "
    code += "".join(f"signal.signal({number:d}, signal.SIG_IGN); " for number in signals)
    return [sys.executable, "-c", code + "os.execvp(sys.argv[1], sys.argv[1:])"]


def test_values_arrive_unchanged_and_nothing_of_them_runs(place: Place) -> None:
    value = "a\nb'\"$(touch /run/broken)`touch /run/broken`\\x41\\\\\t{{ssm:secret}} é \x7f!#%*?[]~;&|<>"
    heard = Heard()

    place.start(order(render(prelude="", body='printf %s "$PARAM_X"', environment={"PARAM_X": value})), heard)

    assert (heard.text().decode(), place.file("broken").exists()) == (value, False)


def test_targets_go_to_the_node_and_come_back(place: Place) -> None:
    targets = ("connection 57 mountpoint /da\\040ta", 'it\'s "$(x)" `y`', "  two  spaces ")
    heard = Heard()

    report = place.start(order('cat "$UNSTICK_TARGETS"; echo new >>"$UNSTICK_TARGETS"', targets=targets), heard)

    assert heard.text().decode() == "".join(f"{target}\n" for target in targets)
    assert report.targets == (*targets, "new")


def test_without_targets_the_file_is_there_and_empty(place: Place) -> None:
    report = place.start(order('[ -f "$UNSTICK_TARGETS" ] && [ ! -s "$UNSTICK_TARGETS" ]'))

    assert (report.exit_code, report.targets) == (0, ())


def test_targets_beyond_the_limit_are_left_out_by_the_line(place: Place) -> None:
    report = place.start(order('for ((i = 0; i < 9000; i++)); do echo "target $i"; done >"$UNSTICK_TARGETS"'))

    assert report.targets == tuple(f"target {i}" for i in range(len(report.targets)))
    assert 5000 < len(report.targets) < 9000
    assert (report.truncated, "left out" in report.reason) == (True, True)


def test_bytes_that_are_no_text_arrive_unchanged(place: Place) -> None:
    heard = Heard()

    place.start(order(r"printf 'caf\351 \360\220\215\210 \000\001\377\n'"), heard)

    assert heard.text() == b"caf\xe9 \xf0\x90\x8d\x88 \x00\x01\xff\n"


def test_two_starts_at_once_run_the_script_once(place: Place) -> None:
    given = order("echo ran >>/run/count; sleep 0.5; echo done")
    reports: list[Report] = []
    ears = [Heard(), Heard(), Heard()]

    threads = [threading.Thread(target=lambda ear=ear: reports.append(place.start(given, ear))) for ear in ears]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert place.file("count").read_text() == "ran\n"
    assert [(report.state, report.exit_code) for report in reports] == [(ReportState.FINISHED, 0)] * 3
    assert [ear.text() for ear in ears] == [b"done\n"] * 3


def test_a_start_that_comes_again_attaches_to_the_first(place: Place) -> None:
    given = order("echo ran >>/run/again; echo out")
    first = place.start(given)
    heard = Heard()

    second = place.start(given, heard)

    assert place.file("again").read_text() == "ran\n"
    assert (second.state, second.exit_code, second.pid, heard.text()) == (first.state, 0, first.pid, b"out\n")


def test_an_envelope_that_was_cut_runs_nothing(place: Place) -> None:
    given = order("touch /run/cut")
    whole = envelope.for_start(given)
    command = [*place.prefix, "sh", "-c", envelope.command_line(HERE)]

    for length in [
        0,
        1,
        40,
        *range(1000, len(whole), 2500),
        *range(len(whole) - 60, len(whole) - 1, 7),
        len(whole) - 2,
    ]:
        done = subprocess.run(command, input=whole[:length], capture_output=True, check=False)
        assert b"unstick " not in done.stdout, (length, done.stdout)

    assert (place.file("cut").exists(), (place.folder / given.attempt_id).exists()) == (False, False)


def test_noise_before_around_and_after_is_never_read(place: Place) -> None:
    profile = 'echo "welcome to gpu-05"; printf "\\033]3008;start=x\\033\\\\ no newline"; echo 3 >&2; "$@"; echo bye'
    noisy = LocalExecutor(prefix=["/bin/sh", "-c", profile, "sh", *place.prefix])
    heard = Heard()

    report = noisy.start(order("echo 'unstick x {}'; exit 3"), heard)

    noisy.close()
    assert (report.exit_code, heard.text()) == (3, b"unstick x {}\n")


def test_the_same_bytes_work_as_base64_in_one_line(place: Place) -> None:
    given = order("echo over base64")
    line = f"printf %s {base64.b64encode(envelope.for_start(given)).decode()} | base64 -d | ("
    line += envelope.command_line(HERE) + ")"
    conversation = Conversation(given.attempt_id, HERE)

    done = subprocess.run([*place.prefix, "bash"], input=line.encode(), capture_output=True, check=True)
    chunks = conversation.feed(done.stdout)

    assert [(chunk.stream, chunk.data) for chunk in chunks] == [(Stream.STDOUT, b"over base64\n")]
    assert conversation.conclude(SHELL_ENDED).exit_code == 0


def test_nothing_of_an_order_stands_in_a_command_line(place: Place) -> None:
    heard = Heard()
    secret = "word-that-must-not-be-seen"

    place.start(order(f"cat /proc/*/cmdline | tr '\\0' ' ' | grep -c {secret[:-1]}[n] || true"), heard)

    assert heard.text() == b"0\n"
