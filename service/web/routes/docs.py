"""The page that shows the API, from files of our own."""

from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

from service.web.page_paths import GATES
from service.web.sessions import secret_of

FOLDER: Final = Path(__file__).resolve().parent.parent / "static"
#: Swagger UI draws its icons from data: URLs in its style sheet. Nothing inline may run, nothing foreign be loaded.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def show_docs() -> Response:
    """Show the page."""
    return FileResponse(FOLDER / "docs.html", headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})


@router.get("/")
def show_start(request: Request) -> Response:
    """Lead a browser that has signed in to the gates, everybody else to the page."""
    return RedirectResponse(GATES if secret_of(request.headers) else "/docs")


class Files(StaticFiles):
    """The files beside the page; a browser may keep them for an hour."""

    def __init__(self) -> None:
        """Serve the folder `static`."""
        super().__init__(directory=FOLDER)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return one file."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=3600"
        return response
