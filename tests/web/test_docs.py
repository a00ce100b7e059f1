"""The OpenAPI document, its examples, and the page that shows it."""

import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from service.domain.person import Role
from service.web.routes.docs import FOLDER
from tests.support.world import World
from tests.web.api import CURE, Api

VENDORED = FOLDER / "swagger-ui"


class Loaded(HTMLParser):
    """Collects what a page loads and runs."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.loads: list[str] = []
        self.inline: list[str] = []
        self._in: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note addresses, handlers and styles."""
        self._in = tag
        for name, value in attrs:
            if name in ("src", "href", "action", "data"):
                self.loads.append(value or "")
            if name.startswith("on") or name == "style":
                self.inline.append(name)

    def handle_data(self, data: str) -> None:
        """Note what stands inside a script or a style."""
        if self._in in ("script", "style") and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        self._in = None


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    """Give the document as it is served."""
    answer: dict[str, Any] = api.ask("GET", "/openapi.json", role=None).json()
    return answer


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def examples(node: object, place: str = "") -> Iterator[tuple[str, dict[str, Any], object]]:
    """Yield each schema that has examples, with each of them."""
    if isinstance(node, dict):
        for example in node.get("examples", ()) if isinstance(node.get("examples"), list) else ():
            yield place, {key: value for key, value in node.items() if key != "examples"}, example
        for key, value in node.items():
            yield from examples(value, f"{place}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from examples(value, f"{place}/{index}")


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    found = [
        (place, schema, example)
        for place, schema, example in examples(document)
        if "type" in schema or "anyOf" in schema
    ]

    faults = [
        (place, error.message)
        for place, schema, example in found
        for error in Draft202012Validator(schema | {"components": document["components"]}).iter_errors(example)
    ]

    assert len(found) > 15
    assert faults == []


def test_every_schema_of_the_document_is_one(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)

    references = set(re.findall(r'"\$ref": ?"#/components/schemas/([^"]+)"', str(document).replace("'", '"')))
    assert references <= document["components"]["schemas"].keys()


def test_operations_are_named_once_tagged_and_summed_up(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]

    assert len(set(names)) == len(names)
    assert "create_run" in names
    assert all(operation["tags"] and operation["summary"] for _, _, operation in operations(document))


def test_what_needs_a_token_says_so_and_declares_its_refusals(document: dict[str, Any]) -> None:
    for _, path, operation in operations(document):
        if path in ("/healthz", "/readyz"):
            assert "security" not in operation
            continue
        # A sender of alerts is no person: there is nothing that he may not.
        delivers = path == "/webhooks/{source}"
        assert operation["security"] == [{"sender" if delivers else "token": []}]
        assert ({"401"} if delivers else {"401", "403"}) <= operation["responses"].keys()
        for status, response in operation["responses"].items():
            if status >= "400":
                assert list(response["content"]) == ["application/problem+json"]
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_the_examples_of_requests_work(api: Api, world: World, document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    [run] = schemas["RunRequestBody"]["examples"]
    [hold] = schemas["HoldRequest"]["examples"]
    [release] = schemas["ReleaseRequest"]["examples"]
    [deny] = schemas["Deny"]["examples"]
    waits = api.request("gpu-01")
    world.settle()
    [gate] = api.get("/approvals").json()["items"]

    statuses = [
        api.post(f"/approvals/{gate['id']}/deny", {**deny, "digest": gate["digest"]}).status_code,
        api.post("/plans", run).status_code,
        api.post("/runs", run).status_code,
        api.post(f"/runs/{waits}/cancel", *schemas["Cancel"]["examples"]).status_code,
        api.post("/nodes/gpu-01/hold", hold).status_code,
        api.post("/nodes/gpu-01/release", release).status_code,
    ]

    assert statuses == [200, 200, 202, 202, 200, 200]


def test_the_page_loads_its_own_files_and_nothing_inline(api: Api) -> None:
    page = Loaded()
    page.feed(api.ask("GET", "/docs", role=None).text)

    own = [path for path in page.loads if path.startswith("/") and not path.startswith("//")]
    assert page.loads == own
    assert page.inline == []
    assert {api.ask("GET", path, role=None).status_code for path in own} == {200}


def test_the_page_s_policy_lets_only_own_files_run(api: Api) -> None:
    policy = api.ask("GET", "/docs", role=None).headers["content-security-policy"]

    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert (rules["default-src"], rules["script-src"], rules["style-src"]) == ("'none'", "'self'", "'self'")
    assert rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in policy


def test_the_page_starts_without_a_foreign_host_or_a_query(api: Api) -> None:
    script = api.ask("GET", "/static/docs.js", role=None)

    assert "://" not in script.text
    assert "queryConfigEnabled: false" in script.text
    assert "validatorUrl: null" in script.text
    assert script.headers["content-type"].startswith("text/javascript")


def test_the_vendored_files_are_those_that_are_written_down() -> None:
    rows = re.findall(
        r"^\| ([\w.-]+) \| .* \| ([0-9a-f]{64}) \|$", (VENDORED / "VENDORED.md").read_text(), re.MULTILINE
    )

    written = {name: digest for name, digest in rows if not name.endswith(".tgz")}
    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in Path(VENDORED).iterdir()
        if path.name != "VENDORED.md"
    }
    assert written == there


def test_the_start_leads_to_the_page(api: Api) -> None:
    answer = api.ask("GET", "/", role=None)

    assert (answer.status_code, answer.headers["location"]) == (307, "/docs")


def test_a_file_may_be_kept_and_an_answer_may_not(api: Api) -> None:
    assert api.ask("GET", "/static/docs.css", role=None).headers["cache-control"] == "public, max-age=3600"
    assert api.post("/plans", CURE, role=Role.OPERATOR).headers["cache-control"] == "no-store"
