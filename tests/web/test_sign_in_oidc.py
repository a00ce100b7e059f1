"""Signing in to the pages by a provider: through the whole flow, each answer once, and in the browser that began it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from lab.oidc import OidcServer
from service.app.ports import AuditFilter
from service.app.sessions import end_sessions
from service.app.tokens import create_token
from service.domain.login import LoginConfig
from service.domain.person import Person, Role
from service.login.oidc import OidcProvider
from service.web import flows, kept_refusal, sessions
from service.web.failed_sign_ins import MOST_OF_ONE
from service.web.page_paths import OIDC_BACK, SIGN_IN
from tests.login.signing_in import Said, config_for
from tests.support.world import SteppedClock, World
from tests.web.api import Api
from tests.web.browsing import Browser, words

GROUPS = {"gpu-oncall": frozenset({Role.OPERATOR}), "gpu-leads": frozenset({Role.APPROVER})}


@dataclass
class Jar(Browser):
    """A browser that keeps every cookie it is given."""

    cookies: dict[str, str] = field(default_factory=dict)

    def begin(self, to: str = "/gates") -> str:
        """Press the button; return where the provider leads back to, path and query."""
        answer = self.get(f"/sign-in/oidc?next={to}")
        assert answer.status_code == 303, words(answer)
        back = httpx.get(answer.headers["location"], trust_env=False).headers["location"]
        assert back.startswith("http://unstick.test/sign-in/oidc/back?")
        return f"{urlsplit(back).path}?{urlsplit(back).query}"

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Get a page; where a provider's answer was refused, the door that it is led to."""
        answer = super().get(path, **headers)
        if path.startswith(OIDC_BACK) and answer.headers.get("location") == SIGN_IN:
            assert f"{sessions.COOKIE}=" not in answer.headers["set-cookie"]
            return super().get(SIGN_IN)
        return answer

    def sign_in_by_provider(self, to: str = "/gates") -> httpx.Response:
        """Sign in from the button to the end."""
        return self.get(self.begin(to))

    def _cookie(self) -> dict[str, str]:
        return {"Cookie": "; ".join(f'{name}="{value}"' for name, value in self.cookies.items() if value)}

    def _keep(self, answer: httpx.Response) -> httpx.Response:
        for line in answer.headers.get_list("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        return answer


@pytest.fixture
def provider(clock: SteppedClock) -> Iterator[OidcServer]:
    """Give a provider that lives at the service's time and knows ann, who is an operator here."""

    def now() -> float:
        return clock.at.timestamp()

    with OidcServer(now) as server:
        server.person["groups"] = ["gpu-oncall", "staff"]
        yield server


@pytest.fixture
def said(provider: OidcServer, tmp_path: Path) -> Said:
    """Give what login.yaml says."""
    oidc = config_for(provider, tmp_path)
    return Said(LoginConfig("http://unstick.test", oidc, groups=GROUPS, help="Ask in the channel gpu-oncall."))


@pytest.fixture
def world(world: World, said: Said) -> World:
    """Give the service, with a provider."""
    world.service = replace(world.service, login=said, provider=OidcProvider())
    return world


@pytest.fixture
def jar(api: Api) -> Jar:
    """Give a browser that was never here."""
    return Jar(api)


def facts(world: World) -> list[tuple[str, str, dict[str, object]]]:
    """Return what the record says of identities and sessions: action, person and body without addresses."""
    page = world.service.store.read(lambda reader: reader.audit(AuditFilter(), cursor=None, limit=100))
    told = [event.fact for event in reversed(page.items) if event.fact.action.startswith(("session.", "identity."))]
    left_out = ("address", "issuer", "subject")
    return [(f.action, f.person, {k: v for k, v in f.body.items() if k not in left_out}) for f in told]


def test_a_person_signs_in_by_the_button_and_is_led_to_what_was_asked_for(
    jar: Jar, world: World, provider: OidcServer
) -> None:
    door = jar.get("/sign-in?next=/gates/some-gate")
    button = re.search(r'href="(/sign-in/oidc\?next=[^"]*)">Sign in with Example SSO<', door.text)
    assert button is not None
    led = jar.sign_in_by_provider(button[1].partition("next=")[2])

    page = jar.get("/gates")
    assert (led.status_code, led.headers["location"], page.status_code) == (303, "/gates/some-gate", 200)
    assert re.search(r'class="who">ann<', page.text)
    assert "Or with a token" in words(door)
    opened = {"by": "oidc", "groups": ["gpu-oncall", "staff"], "roles": ["operator"]}
    assert facts(world) == [("identity.bound", "ann", {}), ("session.opened", "ann", opened)]
    assert provider.redeemed[0]["code"] not in page.text


def test_both_cookies_are_bound_to_this_host_and_hidden_from_scripts(jar: Jar) -> None:
    begun = jar.get("/sign-in/oidc").headers.get_list("set-cookie")
    ended = jar.sign_in_by_provider().headers.get_list("set-cookie")

    flags = "httponly; max-age={}; path=/; samesite=lax; secure"
    told = [(line.partition("=")[0], line.partition("; ")[2].lower()) for line in (*begun, *ended)]
    assert told == [
        (flows.COOKIE, flags.format(600)),
        (sessions.COOKIE, flags.format(43200)),
        (flows.COOKIE, flags.format(0)),
    ]
    assert (flows.COOKIE, sessions.COOKIE) == ("__Host-unstick-flow", "__Host-unstick")


def test_an_answer_counts_in_no_other_browser_with_no_other_state_not_twice_and_not_late(
    api: Api, jar: Jar, clock: SteppedClock, provider: OidcServer
) -> None:
    back, victim = jar.begin(), Jar(api)
    victim.begin()
    foreign, bare = victim.get(back), Jar(api).get(back)
    tried = (re.sub(r"state=[^&]*", "state=x", back), f"{back}&state=x")
    forged, doubled = (Jar(api, cookies=dict(jar.cookies)).get(one) for one in tried)
    copy = Jar(api, cookies=dict(jar.cookies))
    good, replayed = jar.get(back), copy.get(back)
    late_back = jar.begin()
    clock.at += timedelta(minutes=11)
    late = jar.get(late_back)

    refused = [foreign, bare, forged, doubled, replayed, late]
    assert [answer.status_code for answer in (good, *refused)] == [303, *[401] * 6]
    assert not any(f"{sessions.COOKIE}=" in line for one in refused for line in one.headers.get_list("set-cookie"))
    assert "was not begun in this browser, or too long ago" in words(foreign)
    assert "This answer was used already" in words(replayed)
    assert len(provider.redeemed) == 1


def test_a_cookie_that_the_service_has_not_made_begins_no_signing_in(jar: Jar, provider: OidcServer) -> None:
    back = jar.begin()
    mac, _, said = jar.cookies[flows.COOKIE].partition(".")
    jar.cookies[flows.COOKIE] = f"{mac[::-1]}.{said}"

    assert (jar.get(back).status_code, provider.redeemed) == (401, [])


@pytest.mark.parametrize(
    "to", ["//evil.test", "https://evil.test/gates", "/gates/../docs", "/sign-out", "/\\evil.test"]
)
def test_signing_in_by_a_provider_leads_to_no_other_place_than_our_pages(jar: Jar, to: str) -> None:
    assert jar.sign_in_by_provider(to).headers["location"] == "/gates"


def test_who_has_no_group_with_a_role_is_told_who_can_help(jar: Jar, world: World, provider: OidcServer) -> None:
    provider.person["groups"] = ["staff"]

    refused = jar.sign_in_by_provider()

    assert (refused.status_code, jar.get("/gates").status_code, facts(world)) == (401, 303, [])
    assert "ann is known, and no group of his has a role here (his groups: staff)." in words(refused)
    assert "Ask in the channel gpu-oncall." in words(refused)


def test_what_a_group_may_do_changes_at_the_next_request(jar: Jar, world: World, said: Said) -> None:
    jar.sign_in_by_provider()
    before = jar.get("/gates").status_code
    said.config = replace(said.config, groups={"staff": frozenset({Role.ADMIN})})
    as_admin = jar.get("/gates")
    said.config = replace(said.config, groups={"gpu-leads": frozenset({Role.APPROVER})})
    after = jar.get("/gates")

    assert (before, as_admin.status_code, after.status_code) == (200, 200, 303)
    assert "Pause alerts" in words(as_admin)
    assert facts(world)[-1][2]["reason"] == "no group of his has a role"


def test_another_account_of_the_same_name_and_another_name_of_the_same_account_are_refused(
    api: Api, jar: Jar, provider: OidcServer
) -> None:
    jar.sign_in_by_provider()
    provider.person["preferred_username"] = "bob"
    renamed = Jar(api).sign_in_by_provider()
    provider.person |= {"sub": "another", "preferred_username": "ann"}
    same_name = Jar(api).sign_in_by_provider()
    provider.person["preferred_username"] = "ANN"
    lookalike = Jar(api).sign_in_by_provider()

    assert [one.status_code for one in (renamed, same_name, lookalike)] == [401, 401, 401]
    assert "Your account was ann before, and says now bob." in words(renamed)
    assert "ann is another account already." in words(same_name)
    assert "unstick sessions forget ann" in words(same_name)
    assert "ANN is another account already." in words(lookalike)


def test_a_session_ends_when_another_provider_or_none_is_asked(jar: Jar, world: World, said: Said) -> None:
    oidc = said.config.oidc
    assert oidc is not None
    answers = []
    for other in (replace(oidc, issuer="https://other.test"), None):
        jar.sign_in_by_provider()
        before = jar.get("/gates").status_code
        said.config = replace(said.config, oidc=other)
        answers.append((before, jar.get("/gates").status_code))
        said.config = replace(said.config, oidc=oidc)

    assert answers == [(200, 303), (200, 303)]
    assert facts(world)[-1][2]["reason"] == "signing in by oidc is configured otherwise now"


def test_an_account_is_no_lookalike_of_a_person_who_has_a_token(jar: Jar, world: World, provider: OidcServer) -> None:
    create_token(world.service, "ann-laptop", roles=frozenset({Role.OPERATOR}), person="ann", by="test")
    provider.person["preferred_username"] = "Ann"

    refused = jar.sign_in_by_provider()

    assert (refused.status_code, facts(world)) == (401, [])
    assert "The name Ann is ann, written otherwise; both would count as one person." in words(refused)


def test_one_human_with_a_token_and_an_account_approves_no_run_of_his_own(
    jar: Jar, world: World, provider: OidcServer
) -> None:
    provider.person["groups"] = ["gpu-leads"]
    create_token(world.service, "ann-laptop", roles=frozenset({Role.OPERATOR}), person="ann", by="test")
    world.request("abort-stuck-fuse", "gpu-02", person=Person("ann", frozenset({Role.OPERATOR})))
    world.settle()
    gate = world.open_gates()[0]
    jar.sign_in_by_provider()

    page = jar.get(f"/gates/{gate.id}")

    assert "ann requested this run and may not answer its gate." in words(page)
    assert "/answer" not in page.text


@pytest.mark.parametrize("name", ["unstick", "cli:root", "Unstick", "a\u202eb", " ann"])
def test_a_name_that_the_record_gives_to_nobody_is_refused(
    jar: Jar, world: World, provider: OidcServer, name: str
) -> None:
    provider.person["preferred_username"] = name

    assert (jar.sign_in_by_provider().status_code, facts(world)) == (401, [])


def test_signing_out_ends_the_session_and_shows_the_way_out_at_the_provider(jar: Jar, provider: OidcServer) -> None:
    jar.sign_in_by_provider()
    copy = Jar(jar.api, cookies=dict(jar.cookies))

    out = jar.send("/sign-out")
    page = jar.get(out.headers["location"])

    assert (out.headers["location"], copy.get("/gates").status_code) == ("/sign-in?out=oidc", 303)
    assert "You are signed out." in words(page)
    assert f'href="{provider.issuer}/end?client_id=unstick&amp;post_logout_redirect_uri=' in page.text


def test_an_admin_ends_the_sessions_of_a_person(jar: Jar, world: World) -> None:
    jar.sign_in_by_provider()

    ended = end_sessions(world.service, "ann", by="cli:root")

    assert (ended, jar.get("/gates").status_code) == (1, 303)
    assert facts(world)[-1][:2] == ("session.closed", "cli:root")


def test_a_provider_that_does_not_answer_leaves_tokens_working(api: Api, jar: Jar, said: Said) -> None:
    assert said.config.oidc is not None
    said.config = replace(said.config, oidc=replace(said.config.oidc, issuer="http://127.0.0.1:1"))

    silent = jar.get("/sign-in/oidc?next=/gates/x")
    with_token = jar.sign_in(Role.VIEWER)

    assert (silent.status_code, with_token.status_code) == (503, 303)
    assert "Example SSO does not answer as it should" in words(silent)
    assert 'name="next" value="/gates/x"' in silent.text


def test_a_refusal_of_the_provider_is_told_and_its_own_words_are_not(jar: Jar, provider: OidcServer) -> None:
    provider.error = "access_denied"
    told = jar.sign_in_by_provider()
    provider.error = "<b>call 555"
    inert = jar.sign_in_by_provider()

    assert "Example SSO has not signed you in (access_denied)." in words(told)
    assert ("call 555" in inert.text, "it does not say why" in words(inert)) == (False, True)


def test_a_refusal_leaves_no_code_in_the_address_and_is_shown_once(jar: Jar, provider: OidcServer) -> None:
    provider.person["groups"] = ["staff"]
    back = jar.begin()

    led = Browser.get(jar, back)
    shown, again = jar.get(SIGN_IN), jar.get(SIGN_IN)

    assert (led.status_code, led.headers["location"], shown.status_code, again.status_code) == (303, SIGN_IN, 401, 200)
    told = ["no group of his has a role here" in words(page) for page in (shown, again)]
    assert told == [True, False]


def test_whose_answers_fail_too_often_waits_a_minute(jar: Jar, clock: SteppedClock, provider: OidcServer) -> None:
    tried = [jar.get("/sign-in/oidc/back?code=x&state=x").status_code for _ in range(MOST_OF_ONE + 1)]
    in_time = jar.sign_in_by_provider()
    clock.at += timedelta(minutes=1)

    assert tried == [401] * MOST_OF_ONE + [429]
    assert "Signing in has failed too often from your address." in words(in_time)
    assert provider.redeemed == []
    assert jar.sign_in_by_provider().status_code == 303


@pytest.mark.parametrize("value", ["", "!", "NDAx", "MjAwIHdlbGw", "/w"])
def test_a_kept_refusal_that_cannot_be_ours_shows_the_plain_door(jar: Jar, value: str) -> None:
    jar.cookies[kept_refusal.COOKIE] = value

    assert (jar.get(SIGN_IN).status_code, 'role="alert"' in jar.get(SIGN_IN).text) == (200, False)


def test_without_a_provider_there_is_no_button_and_no_way(api: Api, jar: Jar, said: Said) -> None:
    said.config = LoginConfig()

    assert "Sign in with" not in words(jar.get("/sign-in"))
    assert [jar.get(path).status_code for path in ("/sign-in/oidc", "/sign-in/oidc/back?code=x")] == [404, 404]


def test_a_session_by_a_provider_opens_no_api(api: Api, jar: Jar) -> None:
    jar.sign_in_by_provider()

    assert api.ask("GET", "/api/v1/runs", role=None, headers=jar._cookie()).status_code == 401
