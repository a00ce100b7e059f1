"""Renders the pages: every value is shown inert, and nothing inline or foreign may be loaded."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse
from starlette.types import Scope

from service.domain.shown_text import shown, shown_age, shown_moment
from service.web.page_paths import FLEET, GATES, SIGN_IN
from service.web.schemas.problem import Problem
from service.web.sessions import Visit

FOLDER: Final = Path(__file__).resolve().parent / "pages"
STATIC: Final = Path(__file__).resolve().parent / "static"
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    # Not `no-referrer`: with it a browser sends `Origin: null` with our own forms (Fetch, "append a request Origin").
    "Referrer-Policy": "same-origin",
}


def page(name: str, *, visit: Visit | None, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page from its template; `visit` is who looks at it, None before signing in."""
    text = _templates.get_template(f"{name}.html").render(visit=visit, **values)
    return HTMLResponse(text, status, headers=dict(HEADERS))


def refusal(problem: Problem, scope: Scope) -> HTMLResponse:
    """Return a problem as a page, with a way back."""
    visit = scope.get("unstick.visit")
    return page(
        "refusal",
        visit=visit if isinstance(visit, Visit) else None,
        status=problem.status,
        problem=problem,
        back=_back(scope["path"]),
    )


def words_left(left: timedelta) -> str:
    """Return how long is left, in words; a person at night reads minutes and not a difference of two times."""
    seconds = max(0, int(left.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def _back(path: str) -> str:
    """Return the page from which a path was asked for."""
    if path in (SIGN_IN, FLEET):
        return path
    head, _, rest = path.removeprefix(f"{GATES}/").partition("/")
    return f"{GATES}/{head}" if path.startswith(f"{GATES}/") and rest in ("answer", "override") else GATES


def _inert(value: object) -> object:
    """Return a text without signs that would move, hide or turn other text; escaping for HTML comes after it."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _file(name: str) -> str:
    """Return the address of a file of ours, which changes with it, so that no browser keeps an old one."""
    return f"/static/{name}?v={sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def _moment(moment: datetime) -> Markup:
    """Return a moment that is not broken at the end of a line."""
    return Markup('<span class="at">{}</span>').format(shown_moment(moment))


def _machine_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_templates: Final = Environment(
    loader=FileSystemLoader(FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_inert,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_templates.filters |= {"moment": _moment, "machine_moment": _machine_moment, "left": words_left, "age": shown_age}
_templates.globals |= {"css": _file("pages.css"), "js": _file("pages.js"), "icon": _file("icon.svg")}
