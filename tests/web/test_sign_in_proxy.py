"""A proxy that signs people in is believed from its machine and with its secret; from anybody else it says nothing."""

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest

from service.domain.login import LoginConfig, ProxyConfig
from service.domain.person import Role
from service.web.forwarded import PEER
from service.web.proxied import identity_of
from tests.login.signing_in import Said
from tests.support.world import World
from tests.web.api import Api
from tests.web.browsing import HTML, OWN, Browser, words

Pairs = Sequence[tuple[str, str]]


def headers(user: str = "ann", groups: str = "staff, gpu-leads", secret: str = "s3cret") -> list[tuple[str, str]]:
    """Return what the proxy sets."""
    return [("X-Forwarded-User", user), ("X-Forwarded-Groups", groups), ("X-Unstick-Proxy-Secret", secret)]


@pytest.fixture
def said(tmp_path: Path) -> Said:
    """Give what login.yaml says of a proxy on this machine, from which the tests ask."""
    secret = tmp_path / "proxy-secret"
    secret.touch(mode=0o600)
    secret.write_text("s3cret\n")
    here = (ip_network("127.0.0.1/32"),)
    proxy = ProxyConfig("x-forwarded-user", str(secret), here, groups_header="x-forwarded-groups")
    groups = {"gpu-leads": frozenset({Role.APPROVER})}
    return Said(LoginConfig("", None, proxy, groups))


@pytest.fixture
def world(world: World, said: Said) -> World:
    """Give the service behind that proxy."""
    world.service = replace(world.service, login=said)
    return world


def get(api: Api, path: str, given: Pairs, cookie: str = "") -> httpx.Response:
    """Open a page with these headers."""
    more = [("Cookie", f"__Host-unstick={cookie}")] if cookie else []
    return api.ask("GET", path, role=None, headers=[*HTML.items(), *given, *more])


def let_in(api: Api) -> str:
    """Return the cookie that a person whom the proxy knows is given."""
    answer = get(api, "/sign-in?next=/gates", headers())
    assert answer.status_code == 303, words(answer)
    return answer.headers["set-cookie"].partition(";")[0].partition("=")[2].strip('"')


def test_whom_the_proxy_knows_has_a_session_and_forms_are_still_bound_to_it(api: Api) -> None:
    led = get(api, "/gates", headers())
    cookie = let_in(api)
    page = get(api, "/gates", headers(), cookie)
    form = {"form_token": "0" * 64}
    given = [*HTML.items(), *OWN.items(), *headers(), ("Cookie", f"__Host-unstick={cookie}")]
    forged = api.ask("POST", "/sign-out", role=None, headers=given, data=form)
    bare = api.ask("POST", "/sign-out", role=None, headers=[*HTML.items(), *OWN.items(), *headers()], data=form)

    assert (led.headers["location"], page.status_code) == ("/sign-in?next=/gates", 200)
    assert 'class="who">ann<' in page.text
    assert (forged.status_code, bare.status_code) == (403, 401)


@pytest.mark.parametrize(
    "given",
    [
        headers(secret="wrong"),
        headers()[:2],
        [*headers(), ("X-Unstick-Proxy-Secret", "s3cret")],
        headers(user=""),
    ],
)
def test_a_header_without_the_secret_is_as_if_it_were_not_there(api: Api, given: Pairs) -> None:
    answer = get(api, "/sign-in", given)

    assert (answer.status_code, "set-cookie" in answer.headers, "ann" in words(answer)) == (200, False, False)


def test_a_header_from_another_machine_is_not_believed_whatever_it_says_of_its_own_way(api: Api, said: Said) -> None:
    assert said.config.proxy is not None
    said.config = replace(said.config, proxy=replace(said.config.proxy, networks=(ip_network("192.0.2.7/32"),)))

    answer = get(api, "/sign-in", [*headers(), ("X-Forwarded-For", "192.0.2.7")])

    assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)


@pytest.mark.parametrize(
    ("peer", "believed"),
    [("127.0.0.1", True), ("::ffff:127.0.0.1", True), ("::1", False), ("127.0.0.2", False), ("", False), ("un", False)],
)
def test_the_machine_of_the_proxy_is_known_by_its_address_in_either_form(
    world: World, peer: str, believed: bool
) -> None:
    sent = [(name.lower().encode(), value.encode()) for name, value in headers()]

    found = identity_of(world.service, {"type": "http", "headers": sent, PEER: peer})

    assert (found is not None) == believed


def test_nobody_is_let_in_while_name_or_secret_cannot_be_read(api: Api, said: Said) -> None:
    unreadable = get(api, "/sign-in", headers(user="ann\xff"))
    assert said.config.proxy is not None
    said.config = replace(said.config, proxy=replace(said.config.proxy, secret_file="/none"))
    no_secret = get(api, "/sign-in", headers())

    assert ["set-cookie" in answer.headers for answer in (unreadable, no_secret)] == [False, False]
    assert "The name from the proxy before this service cannot be read." in words(unreadable)
    assert "The proxy before this service cannot be believed; the log says why." in words(no_secret)


@pytest.mark.parametrize("twice", [("X-Forwarded-User", "root"), ("X-Forwarded-Groups", "admins")])
def test_a_header_that_came_twice_is_refused(api: Api, twice: tuple[str, str]) -> None:
    answer = get(api, "/sign-in", [*headers(), twice])

    assert ("set-cookie" in answer.headers, "has sent a header twice" in words(answer)) == (False, True)


def test_a_session_lasts_only_while_the_proxy_says_the_same_person_with_a_role(api: Api) -> None:
    cookie = let_in(api)

    other = [headers(user="bob"), headers(groups="staff"), headers(secret="wrong"), []]
    assert [get(api, "/gates", given, cookie).status_code for given in other] == [303] * 4
    assert get(api, "/gates", headers(), cookie).status_code == 200


def test_a_session_ends_when_no_proxy_is_believed_any_more(api: Api, said: Said) -> None:
    cookie = let_in(api)
    before = get(api, "/gates", headers(), cookie).status_code
    said.config = replace(said.config, proxy=None)

    assert (before, get(api, "/gates", headers(), cookie).status_code) == (200, 303)


def test_who_signs_out_is_not_signed_in_again_unasked(api: Api) -> None:
    page = get(api, "/sign-in?out=proxy", headers())

    assert (page.status_code, "set-cookie" in page.headers) == (200, False)
    assert "Sign in as ann" in words(page)


def test_the_api_takes_tokens_whatever_the_proxy_says(api: Api) -> None:
    assert api.ask("GET", "/api/v1/runs", role=None, headers=headers()).status_code == 401


def test_forwarded_addresses_are_believed_from_configured_proxies_alone(api: Api) -> None:
    from_proxy = Browser(api)
    given = {**OWN, "X-Forwarded-For": "203.0.113.9"}
    tried = [from_proxy.post("/sign-in", {"token": "wrong"}, headers=given).status_code for _ in range(11)]
    elsewhere = Browser(api).sign_in(Role.VIEWER)

    assert tried == [401] * 10 + [429]
    assert elsewhere.status_code == 303
