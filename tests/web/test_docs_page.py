"""The page of the API in a real browser: it works, runs nothing but its own files, and asks nobody else."""

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from lab.needs import need_chromium
from lab.process import wait_until
from service.app.tokens import create_token
from service.domain.person import Role
from service.web.app import create_app
from tests.support.world import World
from tests.web.phone import phone, served, started_browser

#: A browser tells a page of what its policy has stopped, and the console not of all of it.
LISTEN = """
window.stopped = [];
document.addEventListener("securitypolicyviolation", found => window.stopped.push(found.violatedDirective));
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Give one browser."""
    need_chromium()
    with started_browser() as started:
        yield started


#: The colours of Swagger UI's own style, on which what is typed stands.
GROUNDS: dict[Literal["dark", "light"], str] = {"dark": "rgb(28, 32, 34)", "light": "rgb(247, 247, 247)"}
GROUND = "getComputedStyle(document.querySelector('.opblock-body select')).backgroundColor"


def follows(page: Page, prefers: Literal["dark", "light"]) -> None:
    """Wait until the page is written on the ground of who prefers this: it is told, and follows after that."""
    page.emulate_media(color_scheme=prefers)
    # What waits inside the page evaluates texts, which its policy forbids; so it is asked from outside.
    wait_until(lambda: page.evaluate(GROUND) == GROUNDS[prefers], f"the page is {prefers}")


def test_s11_the_page_of_the_api_works_under_its_policy_and_asks_nobody_else(world: World, browser: Browser) -> None:
    token = create_token(world.service, "reader", roles=frozenset({Role.VIEWER}), person="ann", by="test")
    elsewhere = "https://elsewhere.example/openapi.json"
    with served(create_app(world.service)) as url, phone(browser, url, size=(1280, 900)) as held:
        page = held.page
        held.context.add_init_script(LISTEN)
        held.open(f"/docs?url={elsewhere}&configUrl={elsewhere}")
        page.get_by_role("button", name="Authorize").click()
        box = page.locator(".auth-container", has=page.get_by_role("heading", name=re.compile("^token ")))
        box.get_by_label("Value").fill(token)
        box.get_by_role("button", name="Apply credentials").click()
        page.get_by_role("button", name="Close").first.click()
        operation = page.locator("#operations-nodes-list_nodes")
        operation.get_by_role("button").first.click()
        operation.get_by_role("button", name="Try it out").click()
        operation.get_by_role("button", name="Execute").click()
        answer = operation.locator(".live-responses-table .response-col_description")
        answer.get_by_text("gpu-01").first.wait_for()
        status = operation.locator(".live-responses-table .response-col_status").last.inner_text()
        stopped = page.evaluate("window.stopped")
        follows(page, "dark")
        follows(page, "light")

    assert status.split()[0] == "200"
    assert (held.complaints, held.foreign, stopped) == ([], [], [])
