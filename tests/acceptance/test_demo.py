"""`unstick demo`, as a newcomer types it: each way to show it, and what is left when it fails or is stopped."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.needs import need_fuse

UNSTICK = str(Path(sys.executable).with_name("unstick"))
CHECKOUT = Path(__file__).parents[2]
WHOLE = re.compile(r"^ +The chain is whole: \d+ events, head [0-9a-f]{64}$", re.MULTILINE)
#: It only stops a hang.
PATIENCE = 600


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """Give the environment of a demo whose leftovers lie in a folder of their own, with settings that are not its."""
    kept = {name: value for name, value in os.environ.items() if name not in ("YES", "KEEP", "TIER", "EXECUTOR")}
    kept |= {"UNSTICK_DATABASE_URL": f"sqlite:///{tmp_path}/theirs.db", "UNSTICK_TOKEN": "theirs"}
    return kept | {"UNSTICK_LAB_RUN": str(tmp_path / "lab")}


def demo(surroundings: Mapping[str, str], **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run the demo to its end."""
    return command(UNSTICK, "demo", env={**surroundings, **settings})


def command(*words: str, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, both of its streams in one."""
    return subprocess.run(
        words,
        cwd=CHECKOUT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@contextmanager
def running(surroundings: Mapping[str, str], **settings: str) -> Iterator["subprocess.Popen[str]"]:
    """Start the demo; it is ended with the block."""
    with subprocess.Popen(
        # Whoever plays the tests in the background ignores Ctrl-C, and a child would inherit that.
        ["env", "--default-signal=INT", UNSTICK, "demo"],
        env={**surroundings, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def until(process: "subprocess.Popen[str]", words: str) -> str:
    """Read what the demo prints until these words come; return the line that has them."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError(f"{words!r} never came: {''.join(seen)}")


def records(surroundings: Mapping[str, str]) -> list[str]:
    """Return what the lab still has to undo."""
    folder = Path(surroundings["UNSTICK_LAB_RUN"]) / "records"
    return sorted(file.name for file in folder.glob("*.json"))


def nothing_is_left(surroundings: Mapping[str, str]) -> bool:
    """Tell whether the lab has nothing to undo; what a guardian undoes takes a moment."""
    deadline = time.monotonic() + 60
    while records(surroundings) and time.monotonic() < deadline:
        time.sleep(0.2)
    return records(surroundings) == []


def cured(output: str) -> bool:
    """Tell whether the demo has shown everything that it promises."""
    promised = (
        "State:\tD (disk sleep)",
        "gpu-01 abort-dead would act on: connection ",
        "stands at an open gate",
        "second-person $ unstick approve ",
        "verdict: cured",
        "Ended succeeded, verdict cured.",
        "Stuck, found, approved, cured, proven, recorded.",
    )
    missing = [words for words in promised if words not in output]
    assert missing == [], output
    return WHOLE.search(output) is not None


def test_a_booted_node_is_cured_over_ssh(surroundings: dict[str, str]) -> None:
    need_fuse()

    done = demo(surroundings, TIER="1", YES="1")

    assert done.returncode == 0, done.stdout
    assert cured(done.stdout)
    assert "-> 1  a booted node" in done.stdout
    assert nothing_is_left(surroundings)


def test_a_booted_node_without_sshd_is_cured_over_run_command(surroundings: dict[str, str]) -> None:
    need_fuse()

    done = demo(surroundings, EXECUTOR="ssm", YES="1", AWS_ENDPOINT_URL_SSM="http://127.0.0.1:9", AWS_PROFILE="theirs")

    assert done.returncode == 0, done.stdout
    assert cured(done.stdout)
    assert "-> 1  a booted node, reached by SSM Run Command" in done.stdout
    assert "Run Command, played by a stand-in on this machine" in done.stdout
    assert "gpu-01 is instance i-0123456789abcdef0 in region eu-central-1" in done.stdout
    assert re.search(r"\bSendCommand [1-9]", done.stdout), done.stdout
    assert nothing_is_left(surroundings)


def test_without_a_node_a_private_namespace_is_cured(surroundings: dict[str, str]) -> None:
    need_fuse()

    done = demo(surroundings, TIER="2")

    assert done.returncode == 0, done.stdout
    assert cured(done.stdout)
    assert "-> 2  the same in a private mount namespace" in done.stdout
    assert nothing_is_left(surroundings)


def test_without_root_and_fuse_this_machine_is_read_and_no_other_database(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    done = demo(surroundings, TIER="3")

    assert done.returncode == 0, done.stdout
    assert "verdict: none, for nothing was to be cured" in done.stdout
    assert WHOLE.search(done.stdout)
    assert not (tmp_path / "theirs.db").exists()
    assert nothing_is_left(surroundings)


@pytest.mark.parametrize("settings", [{"TIER": "4"}, {"EXECUTOR": "local"}, {"TIER": "2", "EXECUTOR": "ssm"}], ids=str)
def test_what_it_cannot_show_is_refused(surroundings: dict[str, str], settings: dict[str, str]) -> None:
    done = demo(surroundings, **settings)

    assert (done.returncode, done.stdout.split(":")[0]) == (2, "usage")


def test_a_demo_that_is_stopped_leaves_nothing_stuck(surroundings: dict[str, str]) -> None:
    need_fuse()

    with running(surroundings, TIER="2") as process:
        until(process, "State:\tD (disk sleep)")
        process.send_signal(signal.SIGINT)
        until(process, "Stopped, and everything taken down.")
        code = process.wait(PATIENCE)

    assert code == 130
    assert records(surroundings) == []


def test_a_killed_demo_leaves_nothing_stuck(surroundings: dict[str, str]) -> None:
    need_fuse()

    with running(surroundings, TIER="2") as process:
        until(process, "unstick serves on ")
        process.kill()
        process.wait(PATIENCE)

    assert nothing_is_left(surroundings)


def test_a_step_that_fails_is_named_with_the_service_s_last_words(surroundings: dict[str, str]) -> None:
    with running(surroundings, TIER="3") as process:
        until(process, "unstick serves on ")
        folder = next(Path(surroundings["UNSTICK_LAB_RUN"]).glob("demo-*"))
        (folder / "config" / "inventory.yaml").write_text("nodes: {}\n")
        until(process, "Step 2 of 4 failed: ")
        until(process, "The service said last:")
        code = process.wait(PATIENCE)

    assert code == 1
    assert nothing_is_left(surroundings)


def test_what_is_kept_can_be_used_and_is_ended_by_one_command(surroundings: dict[str, str]) -> None:
    done = demo(surroundings, TIER="3", KEEP="1")
    exported = dict(re.findall(r"(UNSTICK_(?:URL|TOKEN))=(\S+)", done.stdout))
    asked = command(UNSTICK, "runs", env={**surroundings, **exported})
    ended = command(sys.executable, "-m", "lab.demo", "down", env=surroundings)
    asked_again = command(UNSTICK, "runs", env={**surroundings, **exported})

    assert done.returncode == 0, done.stdout
    assert "node-facts" in asked.stdout, asked.stdout
    assert (ended.returncode, ended.stdout) == (0, "Everything is taken down.\n")
    assert asked_again.returncode == 2
    assert records(surroundings) == []
