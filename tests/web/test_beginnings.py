"""An id may be typed by its beginning, as long as nothing else begins so."""

import sys
from collections.abc import Callable, Iterator

import pytest

from service.cli.program import run as type_command
from service.domain.person import Role
from service.domain.run import GateState, NodeRunState
from tests.support.world import SteppedClock, World
from tests.web.api import Api
from tests.web.phone import served

Typed = Callable[..., tuple[int, str, str]]


class Numbered(SteppedClock):
    """A clock whose ids look like those of the service, and differ in their second four signs."""

    def new_id(self) -> str:
        """Return the next id."""
        number = int(super().new_id().removeprefix("id"))
        return f"0198{number:04x}-0000-7000-8000-{number:012x}"


@pytest.fixture
def clock() -> SteppedClock:
    return Numbered()


@pytest.fixture
def typed(api: Api, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Typed]:
    """Give the program, for a person with a role: exit code, output, and what it complains of."""
    with served(api.app) as url:
        monkeypatch.setenv("UNSTICK_URL", url)

        def type_as(role: Role, *words: str) -> tuple[int, str, str]:
            monkeypatch.setenv("UNSTICK_TOKEN", api.tokens[role])
            capfd.readouterr()
            with pytest.raises(SystemExit) as ended:
                sys.exit(type_command(list(words)))
            said = capfd.readouterr()
            return int(ended.value.code or 0), said.out, said.err

        yield type_as


def test_a_beginning_that_one_run_has_is_that_run_and_a_shared_or_short_one_is_none(world: World, typed: Typed) -> None:
    first, second = (world.request("abort-stuck-fuse", node).id for node in ("gpu-01", "gpu-02"))

    shown = typed(Role.VIEWER, "show", first[:8])
    cancelled = typed(Role.OPERATOR, "cancel", first[:9])
    timeline = typed(Role.VIEWER, "audit", "timeline", "--run", first[:10])
    short, absent = typed(Role.OPERATOR, "cancel", second[:3]), typed(Role.OPERATOR, "cancel", "ffff")

    assert (shown[0], shown[1].splitlines()[0]) == (0, f"run {first}: abort-stuck-fuse is queued")
    assert (cancelled[0], first in cancelled[1]) == (0, True)
    assert (timeline[0], "cancel" in timeline[1]) == (0, True)
    assert [(code, error.splitlines()[0]) for code, _, error in (short, absent)] == [
        (2, f"There is no run {second[:3]}."),
        (2, "There is no run ffff."),
    ]


def test_where_several_begin_so_they_are_named_and_nothing_is_done(world: World, typed: Typed) -> None:
    runs = [world.request("abort-stuck-fuse", node) for node in ("gpu-01", "gpu-02")]

    code, _, error = typed(Role.OPERATOR, "cancel", "0198")

    assert code == 2
    assert error.startswith(f"Several ids begin with 0198: run {runs[1].id}, run {runs[0].id}.")
    assert {world.node_runs(run)[0].state for run in runs} == {NodeRunState.QUEUED}


def test_a_gate_is_answered_by_its_beginning_only_with_what_was_seen(world: World, typed: Typed) -> None:
    run = world.request("abort-stuck-fuse", "gpu-02")
    world.settle()
    [gate] = world.open_gates()

    blind = typed(Role.APPROVER, "approve", gate.id[:8], "--yes")
    still = world.open_gates()
    seen = typed(Role.APPROVER, "approve", gate.id[:8], "--digest", gate.digest)

    assert (blind[0], still) == (2, [gate])
    assert blind[2].splitlines() == [
        "--yes asks nobody, so it takes the whole id.",
        f"unstick approve {gate.id} --yes",
    ]
    assert (seen[0], f"gate {gate.id} approved" in seen[1]) == (0, True)
    [answered] = [one for one in world.history(world.node_runs(run)[0]).gates if one.id == gate.id]
    assert (answered.state, answered.decided_by) == (GateState.APPROVED, Role.APPROVER)


@pytest.mark.parametrize("what", ["{}/events", ".", "..", "../runs", "", "https://elsewhere.example/{}"])
def test_what_would_lead_to_another_place_is_no_id(world: World, typed: Typed, what: str) -> None:
    run = world.request("abort-stuck-fuse", "gpu-01")

    answers = [typed(Role.OPERATOR, command, what.format(run.id)) for command in ("show", "cancel", "approve")]

    assert [(code, error.splitlines()[0]) for code, _, error in answers] == [
        (2, f"`{what.format(run.id)}` is no id and no name.")
    ] * 3
    assert {one.state for one in world.node_runs(run)} == {NodeRunState.QUEUED}


def test_what_is_not_text_is_refused_and_nothing_is_asked(world: World, typed: Typed) -> None:
    world.request("abort-stuck-fuse", "gpu-01")

    held = typed(Role.OPERATOR, "hold", "gpu-02", "--reason", "\udcff")
    shown = typed(Role.VIEWER, "show", "0198\udcff")

    assert (held[0], held[2].splitlines()[0]) == (2, "What was typed is not text in UTF-8; nothing was asked.")
    assert (shown[0], shown[1]) == (2, "")
    assert world.service.store.read(lambda reader: reader.hold("gpu-02")) is None
