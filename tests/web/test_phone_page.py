"""The page of a gate in a real browser, as wide as a phone: from the link in a notice to the answer."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from lab.needs import need_chromium
from lab.oidc import OidcServer
from service.app.tokens import create_token
from service.domain.login import LoginConfig
from service.domain.person import Role
from service.domain.policy import Policy
from service.domain.rule import RuleSet
from service.domain.run import Gate, GateState, NodeRunState, Verdict
from service.domain.schedule import read_schedule
from service.domain.script import ScriptKind
from service.domain.sweep import Finding, NodeLook, StepFinding, Sweep
from service.executors.scripted import ScriptedExecutor, exits
from service.login.oidc import OidcProvider
from service.web.app import create_app
from tests.app.alerting import Fixed
from tests.login.signing_in import Said, config_for
from tests.support.world import SECOND, SteppedClock, World
from tests.web.conftest import TARGET, dead_server, hung_server
from tests.web.phone import NARROW, Phone, phone, served, started_browser

HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">\u202egnp.exe\n"
ENDLESS = "A" * 10_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Give one browser to all tests; each has a phone of its own in it."""
    need_chromium()
    with started_browser() as started:
        yield started


@pytest.fixture
def executor() -> ScriptedExecutor:
    """Give a dead server, a hung one, and a node whose check says what a hostile one would."""
    said = exits(0, targets=(f"{TARGET}/{ENDLESS}", HOSTILE.strip()), stdout=HOSTILE + ENDLESS, stderr=HOSTILE)
    hostile = dead_server("gpu-03") | {("gpu-03", "abort-dead", ScriptKind.CHECK): [said]}
    return ScriptedExecutor(dead_server("gpu-01") | hung_server("gpu-02") | hostile)


@pytest.fixture
def url(world: World, browser: Browser) -> Iterator[str]:
    """Give the address of the service."""
    with served(create_app(world.service)) as address:
        yield address


@pytest.fixture
def in_hand(browser: Browser, url: str) -> Iterator[Phone]:
    """Give a phone that has never been here; nothing may have gone wrong on it afterwards."""
    with phone(browser, url) as held:
        yield held
        assert (held.complaints, held.foreign) == ([], [])


def opened(world: World, node: str = "gpu-01", reason: str = "readers hang") -> Gate:
    """Request the cure of a node as `operator`, and return the gate at which it stops."""
    world.request("abort-stuck-fuse", node, reason=reason)
    world.settle()
    return next(gate for gate in world.open_gates() if gate.node == node)


def token(world: World, person: str = "second", role: Role = Role.APPROVER) -> str:
    """Return a new token of a person."""
    return create_token(world.service, person, roles=frozenset({role, Role.VIEWER}), person=person, by="test")


def gate_now(world: World, gate: Gate) -> Gate:
    """Return a gate as it is stored now."""
    return world.service.store.read(lambda reader: reader.gate(gate.id))


def test_a_second_person_comes_from_nothing_and_cures_the_node(world: World, in_hand: Phone) -> None:
    gate, page = opened(world, "gpu-02"), in_hand.page

    in_hand.open(f"/gates/{gate.id}")
    in_hand.sign_in(token(world))
    shown = in_hand.says()
    page.get_by_role("button", name="Approve on gpu-02").tap()
    untouched = gate_now(world, gate)
    page.get_by_label("I have read what would be acted on").check()
    page.get_by_role("button", name="Approve on gpu-02").tap()
    page.get_by_text("The gate is approved by second").wait_for()
    world.settle()
    in_hand.open(f"/gates/{gate.id}")

    node_run = world.service.store.read(lambda reader: reader.node_run(gate.node_run_id))
    assert TARGET in shown
    assert untouched == gate
    assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert "gpu-02: succeeded, verdict cured" in in_hand.says()


def test_a_denial_with_its_reason_is_one_form(world: World, in_hand: Phone) -> None:
    gate, page = opened(world), in_hand.page
    in_hand.open(f"/gates/{gate.id}")
    in_hand.sign_in(token(world))

    page.get_by_role("button", name="Deny").tap()
    untouched = gate_now(world, gate)
    page.get_by_label("Reason for a denial").fill("an upload runs")
    page.get_by_role("button", name="Deny").tap()
    page.get_by_text("The gate is denied by second").wait_for()

    assert untouched == gate
    assert (gate_now(world, gate).state, gate_now(world, gate).reason) == (GateState.DENIED, "an upload runs")


def test_the_requester_sees_no_button_and_why(world: World, in_hand: Phone) -> None:
    gate = opened(world, "gpu-02")

    in_hand.open(f"/gates/{gate.id}")
    in_hand.sign_in(token(world, "operator"))

    assert in_hand.page.get_by_role("button", name="Approve").count() == 0
    assert "operator requested this run and may not answer its gate." in in_hand.says()


def test_what_happened_while_the_page_was_open_is_told(
    world: World, browser: Browser, url: str, clock: SteppedClock
) -> None:
    ann, bob = token(world, "ann"), token(world, "bob")
    gate = opened(world)
    with ExitStack() as stack:
        slow, late = (stack.enter_context(phone(browser, url)) for _ in range(2))
        for held, shown in ((slow, ann), (late, bob)):
            held.open(f"/gates/{gate.id}")
            held.sign_in(shown)
        world.answer(gate, by=SECOND)
        slow.page.get_by_role("button", name="Approve").tap()
        slow.page.get_by_role("alert").wait_for()
        told = slow.says()
        world.settle()
        other = opened(world, "gpu-03")
        late.open(f"/gates/{other.id}")
        clock.at += timedelta(minutes=59)
        late.page.reload()
        clock.at += timedelta(minutes=2)
        late.page.get_by_role("button", name="Approve").tap()
        late.page.get_by_role("alert").wait_for()

        assert "The gate is approved by second: seen." in told
        assert "nothing was run" in late.says()
        assert (gate_now(world, other).state, gate_now(world, other).decided_by) == (GateState.EXPIRED, None)
        assert late.page.get_by_role("button", name="Approve").count() == 0


def test_two_taps_are_one_answer(world: World, in_hand: Phone) -> None:
    gate = opened(world)
    in_hand.open(f"/gates/{gate.id}")
    in_hand.sign_in(token(world))

    in_hand.page.get_by_role("button", name="Approve").dblclick()
    in_hand.page.get_by_text("The gate is approved by second").wait_for()

    run = world.service.store.read(lambda reader: reader.run(gate.run_id))
    assert world.facts(run).count("gate.approved") == 1


def test_hostile_output_neither_runs_nor_widens_the_page(world: World, browser: Browser, url: str) -> None:
    gate, shown = opened(world, "gpu-03", HOSTILE + ENDLESS[:1000]), token(world)

    with phone(browser, url, size=NARROW) as held:
        held.open(f"/gates/{gate.id}")
        held.sign_in(shown)
        held.page.get_by_text("What would run on gpu-03").tap()
        title, overhang = held.page.title(), held.overhang()
        held.open("/gates")

        assert title == "gpu-03: Abort connections whose server is provably gone"
        assert (overhang, held.overhang()) == (0, 0)
        assert (held.complaints, held.foreign) == ([], [])


def test_the_fleet_stands_on_a_phone_without_scripts_and_is_no_wider_than_it(
    world: World, browser: Browser, clock: SteppedClock
) -> None:
    sweep = Sweep("nightly", "abort-stuck-fuse", read_schedule("17 3 * * *"), pool="h100")
    steps = tuple(StepFinding(step, Finding.COULD_NOT_LOOK, HOSTILE + ENDLESS) for step in ("abort-dead", "well"))
    look = NodeLook("gpu-01", "nightly", "abort-stuck-fuse", "r" * 36, clock.now(), Finding.COULD_NOT_LOOK, steps)
    world.service.store.write(lambda transaction: transaction.put_look(look))
    shown = token(world, "someone-with-a-long-name@example.net", Role.VIEWER)
    app = create_app(replace(world.service, rules=Fixed(RuleSet({}, (), (sweep,)))))

    with served(app) as address, phone(browser, address, scripts=False) as held:
        held.open("/gates")
        held.sign_in(shown)
        held.page.get_by_role("link", name="Fleet").tap()
        held.page.get_by_role("heading", name="The fleet").wait_for()
        overhang, heights = held.overhang(), _heights(held)
        held.page.get_by_label("Pool").select_option("h100")
        held.page.get_by_role("button", name="Show").tap()
        held.page.wait_for_url("**pool=h100")

        assert "20 nodes: 1 ? (could not look), 19 never looked at" in held.says()
        assert (overhang, held.overhang(), [one for one in heights if one < 44]) == (0, 0, [])
        assert (held.complaints, held.foreign) == ([], [])


def test_glass_is_broken_on_a_phone_by_two_pages_and_the_name_of_the_node(world: World, browser: Browser) -> None:
    gate, shown = opened(world, "gpu-03"), token(world, "breaker", Role.BREAK_GLASS)
    app = create_app(replace(world.service, policy=Fixed(Policy(break_glass=True))))

    with served(app) as address, phone(browser, address) as held:
        held.open(f"/gates/{gate.id}")
        held.sign_in(shown)
        held.page.get_by_text("Break glass: nobody who may approve").tap()
        held.page.get_by_label("Why nobody could be asked").fill(ENDLESS[:1900])
        first = held.overhang()
        held.page.get_by_role("button", name="Override this gate").tap()
        held.page.get_by_role("heading", name="Override this gate on gpu-03?").wait_for()
        untouched, asked, heights = gate_now(world, gate), held.overhang(), _heights(held)
        held.page.get_by_label("Type the name of the node: gpu-03").fill("gpu-03")
        held.page.get_by_role("button", name="Override, and tell everybody").tap()
        held.page.get_by_text("The gate was OVERRIDDEN").wait_for()

        assert (untouched, first, asked, [one for one in heights if one < 44]) == (gate, 0, 0, [])
        assert gate_now(world, gate).state is GateState.OVERRIDDEN
        assert (held.complaints, held.foreign, held.page.title() != "owned") == ([], [], True)


def test_all_of_it_works_without_scripts(world: World, browser: Browser, url: str) -> None:
    gate, shown = opened(world), token(world)

    with phone(browser, url, scripts=False) as held:
        held.open(f"/gates/{gate.id}")
        held.sign_in(shown)
        left = held.page.locator("time").inner_text()
        held.page.get_by_text("What would run on gpu-01").tap()
        held.page.get_by_label("The step's script").wait_for()
        held.page.get_by_role("button", name="Approve").tap()
        held.page.get_by_text("The gate is approved by second").wait_for()

        assert left == "59 min"
        assert gate_now(world, gate).decided_by == "second"


def test_a_link_in_a_chat_finds_who_has_signed_in_and_a_foreign_form_finds_nobody(
    world: World, in_hand: Phone, url: str
) -> None:
    gate, page = opened(world), in_hand.page
    in_hand.open("/sign-in")
    in_hand.sign_in(token(world))
    page.get_by_role("heading", name="Gates that wait").wait_for()

    page.goto("about:blank")
    page.set_content(f'<a href="{url}/gates/{gate.id}">approve?</a>')
    page.get_by_role("link").tap()
    page.get_by_role("button", name="Approve").wait_for()
    page.goto("about:blank")
    fields = f'<input name="answer" value="approve"><input name="digest" value="{gate.digest}">'
    page.set_content(f'<form method="post" action="{url}/gates/{gate.id}/answer">{fields}<button>win</button></form>')
    page.get_by_role("button").tap()
    page.get_by_text("Nothing was done.").wait_for()

    assert gate_now(world, gate) == gate
    in_hand.complaints.clear()


def test_a_person_comes_by_a_provider_and_out_again_on_a_phone(
    world: World, browser: Browser, clock: SteppedClock, tmp_path: Path
) -> None:
    with OidcServer(lambda: clock.now().timestamp()) as provider:
        provider.person["groups"] = ["leads"]
        said = Said(LoginConfig("", config_for(provider, tmp_path), groups={"leads": frozenset({Role.APPROVER})}))
        service = replace(world.service, login=said, provider=OidcProvider())
        with served(create_app(service)) as address, phone(browser, address) as held:
            said.config = replace(said.config, base_url=address)
            held.open("/gates")
            heights, overhang = _heights(held), held.overhang()
            held.page.get_by_role("link", name="Sign in with Example SSO").tap()
            held.page.get_by_role("heading", name="Gates that wait").wait_for()
            who = held.page.locator(".who").inner_text()
            held.page.get_by_role("button", name="Sign out").tap()
            held.page.get_by_role("link", name="Sign out there too").wait_for()

    assert (who, overhang, [one for one in heights if one < 44]) == ("ann", 0, [])
    assert (held.complaints, [urlsplit(one).path for one in held.foreign]) == ([], ["/authorize"])


def test_everything_that_is_tapped_is_large_enough_for_a_thumb(world: World, in_hand: Phone) -> None:
    gate, page = opened(world, "gpu-02"), in_hand.page
    in_hand.open(f"/gates/{gate.id}")
    heights = [*_heights(in_hand)]
    in_hand.sign_in(token(world))
    heights += _heights(in_hand)
    page.goto(f"{in_hand.url}/gates")
    heights += _heights(in_hand)

    assert [one for one in heights if one < 44] == []
    assert len(heights) > 10


def _heights(held: Phone) -> list[float]:
    """Return the heights, in CSS pixels, of all that can be tapped; a box is as high as its label."""
    tapped = held.page.locator(
        "a, button, summary, textarea, select, input:not([type=hidden], [type=checkbox]), label.tick"
    )
    boxes = [one.bounding_box() for one in tapped.all() if one.is_visible()]
    return [box["height"] for box in boxes if box is not None]
