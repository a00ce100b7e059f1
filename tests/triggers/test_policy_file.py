"""policy.yaml: what it says, what is refused, and what holds while it is wrong."""

from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from service.domain.errors import ConfigInvalid
from service.domain.person import Permission
from service.domain.policy import BlastRadius, Freeze, Policy, WindowCap
from service.domain.reach import Reach
from service.domain.rights import Right
from service.domain.survey import OccupantLimits
from service.triggers.policy_file import FilePolicy, load_policy

ROOT = Path(__file__).resolve().parents[2]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    return path


def test_the_example_is_one_that_a_user_may_copy() -> None:
    assert load_policy(ROOT / "config" / "policy.example.yaml") == Policy(
        BlastRadius(3, WindowCap(10, timedelta(hours=1)), 10),
        (
            Freeze("end of the year", datetime(2026, 12, 23, 16, tzinfo=UTC), datetime(2027, 1, 4, 7, tzinfo=UTC)),
            Freeze("weekend of the training team", None, None, (4,), time(18), timedelta(hours=60), ("h100",)),
        ),
        occupants=OccupantLimits(4, 1, 0, 8, ("h100",)),
    )


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert FilePolicy(tmp_path / "policy.yaml").current() == Policy()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("blast_radius:\n  nodes_at_onec: 3\n", ":2: `blast_radius.nodes_at_onec` is not a key that is known here. Do"),
        ("blast_radius: {percent_of_pool: 0}\n", ":1: `blast_radius.percent_of_pool` is the number 0; it must be"),
        ("blast_radius: {per_window: {within: 1 hour}}\n", ":1: `blast_radius.per_window.within` is '1 hour', which"),
        ("blast_radius:\n", ":1: `blast_radius` is empty."),
        ("freezes:\n  - name: x\n    days: [fri]\n", ":2: `freezes.0` is neither once nor weekly. Write `from`"),
        (
            "freezes:\n  - {name: x, from: 2027-01-02T00:00Z, to: 2027-01-01T00:00Z}\n",
            ":2: `freezes.0` ends before it begins.",
        ),
        ("freezes:\n  - {name: x, from: 2027-01-02, to: 2027-01-01T00:00Z}\n", "Write a time in UTC, as"),
        ("freezes:\n  - {name: x, days: [Fri], lasts: 1h}\n", "`freezes.0.days.0` is 'Fri'"),
        ('freezes:\n  - {name: x, days: [fri], at: "25:00", lasts: 1h}\n', "`freezes.0.at` is '25:00'. Write a time"),
        ("redact: ['a*']\n", ":1: `redact.0` finds the empty text too. Let it begin with"),
        ("redact: ['(?=a)']\n", ":1: `redact.0` is not what RE2 reads"),
        ("redact: [7]\n", ":1: `redact.0` is the number 7. Write an expression of RE2's"),
        ("keep: {delivery_days: 0}\n", ":1: `keep.delivery_days` is the number 0; it must be"),
        ("keep: {outputs: 3}\n", ":1: `keep.outputs` is not a key that is known here."),
        ("occupants: {pods: -1}\n", ":1: `occupants.pods` is the number -1; it must be"),
        ("occupants: {gpus: 1}\n", ":1: `occupants.gpus` is not a key that is known here."),
        ("occupants: {only_for: [h100]}\n", ":1: `occupants` limits nothing. Name how many `pods`"),
        ("rights:\n  - {who: [ann], may: [requst]}\n", ":2: `rights.0.may.0` is 'requst'. Write operator, approver,"),
        (
            "rights:\n  - {who: [ann], may: [read]}\n",
            "`rights.0.may.0` is read, which the role of a token decides alone.",
        ),
        ("rights:\n  - {who: [], may: [hold]}\n", ":2: `rights.0.who` is a list; list should have at least 1 item"),
        ("rights:\n  - {may: [hold]}\n", "`rights.0.who` is missing."),
        ("rights:\n  - {who: ['group:'], may: [hold]}\n", "`rights.0.who.0` is 'group:'. Write the name of a person"),
        ("rights:\n  - {who: ['a*'], may: [hold]}\n", "`rights.0.who.0` is 'a*'."),
        ("rights:\n  - {who: [ann], may: [hold], pools: ['h 1']}\n", "`rights.0.pools.0` is 'h 1'. Write a name;"),
        ("rights:\n  - {who: [ann, ann], may: [hold]}\n", ":2: `rights.0` says ann twice. Say it once."),
        (
            "rights:\n  - {who: [ann], may: [hold], runbook: [a]}\n",
            "is not a key that is known here. Do you mean `runbooks`?",
        ),
        (
            "rights:\n  - {who: [ann, bob], may: [hold]}\n  - {who: [bob, ann], may: [hold]}\n",
            ":3: `rights.1` says what line 2 says. Remove one of them.",
        ),
        ("- 3\n", ":1: The file is not a mapping"),
        ("", ":1: The file is empty."),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, finding: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load_policy(written(tmp_path, text))

    assert finding in str(caught.value)


def test_a_file_that_became_wrong_loosens_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "blast_radius: {nodes_at_once: 1}\n")
    policy = FilePolicy(path)
    good = policy.current()

    written(tmp_path, "blast_radius: {nodes_at_once: many}\n")

    assert policy.current() == good == Policy(BlastRadius(nodes_at_once=1))
    assert "many" in str(policy.problem)


@pytest.mark.parametrize("then", ["", "break_glass: maybe\n", "redact: ["], ids=["gone", "wrong", "no YAML"])
def test_break_glass_is_off_while_the_file_that_switched_it_on_is_gone_or_wrong(tmp_path: Path, then: str) -> None:
    said = "" if then else "There is no file "
    on = "break_glass: true\nblast_radius: {nodes_at_once: 1}\n"
    path = written(tmp_path, on)
    policy = FilePolicy(path)
    first = policy.current()

    path.unlink()
    if then:
        written(tmp_path, then)
    second = policy.current()
    written(tmp_path, f"{on}# again\n")

    assert first == policy.current() == Policy(BlastRadius(nodes_at_once=1), break_glass=True)
    assert (second.blast_radius, second.break_glass) == (first.blast_radius, False)
    assert second.break_glass_off.startswith(f"No gate may be overridden while policy.yaml is missing or wrong: {said}")


def test_rights_are_read_with_their_lines_and_a_role_stands_for_all_that_it_acts_with(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """rights:
  - {who: [ann, "group:sre"], may: [operator], runbooks: ["node-*"], pools: [h100]}
  - who: ["*"]
    may: [approve, pause]
""",
    )

    assert load_policy(path).rights == (
        Right(
            frozenset({"ann", "group:sre"}),
            frozenset(map(Permission, ("request", "cancel", "resolve", "hold", "decide"))),
            Reach(("node-*",), ("h100",)),
            f"{path}:2",
        ),
        Right(frozenset({"*"}), frozenset(map(Permission, ("approve", "decide", "pause"))), place=f"{path}:3"),
    )
    assert load_policy(written(tmp_path, "keep: {output_days: 9}\n")).rights is None


def test_rights_that_became_wrong_give_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "rights:\n  - {who: [ann], may: [hold]}\n")
    policy = FilePolicy(path)
    good = policy.current()

    written(tmp_path, "rights:\n  - {who: ['*'], may: [everything]}\n")

    assert policy.current() == good
