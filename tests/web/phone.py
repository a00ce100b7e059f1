"""A real browser, the size of a phone, and the application behind a real server on loopback."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: What is narrow today, and what is narrow at all (WCAG 2.1, 1.4.10).
PHONE, NARROW = (390, 844), (320, 640)
#: Milliseconds; it only stops a hang.
PATIENCE = 60_000


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Give a browser, and end it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS), timeout=PATIENCE)
        yield browser
        browser.close()


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an application on loopback, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="web")
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            # A failed test must not leave a thread for which the process would wait for ever.
            server.should_exit = True
            thread.join()


@dataclass
class Phone:
    """A phone in somebody's hand, and all that went wrong on it."""

    url: str
    context: BrowserContext
    page: Page
    #: Lines on the console, and errors of scripts.
    complaints: list[str] = field(default_factory=list)
    #: Hosts other than ours that were asked for anything.
    foreign: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Open a page of ours."""
        self.page.goto(self.url + path)

    def hear(self, text: str) -> None:
        """Keep what the console says, but for its word that somebody was quicker than `autofocus`: a test is."""
        if not text.startswith("Autofocus processing was blocked"):
            self.complaints.append(text)

    def sign_in(self, token: str) -> None:
        """Paste a token where it is asked for."""
        self.page.get_by_label("Your token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        # The next page is there, and what it says is not read from this one.
        self.page.get_by_label("Your token").wait_for(state="detached")

    def says(self) -> str:
        """Return what the page shows, as one line."""
        return " ".join(self.page.locator("main").inner_text().split())

    def overhang(self) -> int:
        """Return by how many pixels the page is wider than the phone."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@contextmanager
def phone(browser: Browser, url: str, *, scripts: bool = True, size: tuple[int, int] = PHONE) -> Iterator[Phone]:
    """Give a phone that has never been here."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, has_touch=True, is_mobile=True, java_script_enabled=scripts
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    held = Phone(url, context, page)
    own = urlsplit(url).netloc

    def note(request: Request) -> None:
        if urlsplit(request.url).netloc != own:
            held.foreign.append(request.url)

    page.on("request", note)
    page.on("console", lambda message: held.hear(message.text))
    page.on("pageerror", lambda error: held.complaints.append(str(error)))
    yield held
    context.close()
