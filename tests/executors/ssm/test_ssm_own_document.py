"""Scripts over docs/ssm-documents/unstick-run.json with its hash pinned, from the order to what ran on the instance."""

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from service.domain.node import Endpoint
from service.domain.script import NotStarted, ReportState
from tests.executors.envelope_place import Heard
from tests.executors.ssm.support import Region, acting, endpoint, order

pytestmark = pytest.mark.needs_root

DOCUMENT = Path("docs/ssm-documents/unstick-run.json")
HASH = DOCUMENT.with_name("SHA256SUMS").read_text().split()[0]
NAME = "unstick-run"
PINNED = endpoint(document=NAME, document_hash=HASH)


@pytest.fixture(scope="module", autouse=True)
def document(whole_region: Region) -> Iterator[None]:
    """Make the document as docs/nodes.md says."""
    client = boto3.session.Session().client("ssm")
    content = DOCUMENT.read_text()
    client.create_document(Name=NAME, DocumentType="Command", DocumentFormat="JSON", Content=content)
    assert client.describe_document(Name=NAME)["Document"]["Hash"] == HASH
    yield
    client.close()


def ran(region: Region, name: str, *, by: Endpoint) -> tuple[ReportState, NotStarted | None, int | None, bool]:
    """Let a script that acts make a file; return how it ended, and whether the file is there."""
    report = region.run(acting(f"touch /run/{name}", endpoint=by))
    return report.state, report.not_started, report.exit_code, region.place.file(name).exists()


def test_a_look_and_an_act_run_over_the_own_document_and_are_told_in_full(region: Region) -> None:
    since, heard = len(region.sends()), Heard()

    look = region.run(order("echo seen", endpoint=PINNED), heard)
    act = ran(region, "pinned", by=PINNED)

    sent = [call.parameters for call in region.sends(since)]
    assert (look.state, look.exit_code, heard.text()) == (ReportState.FINISHED, 0, b"seen\n")
    assert act == (ReportState.FINISHED, None, 0, True)
    assert [(one["DocumentName"], one["DocumentHash"]) for one in sent] == [(NAME, HASH)] * 2


def test_over_an_own_document_of_another_hash_nothing_runs(region: Region) -> None:
    refused = (ReportState.NOT_STARTED, NotStarted.REFUSED, None, False)

    assert ran(region, "unpinned", by=endpoint(document=NAME, document_hash="ab" * 32)) == refused


def test_over_an_own_document_that_somebody_has_changed_since_nothing_runs(region: Region) -> None:
    changed = json.loads(DOCUMENT.read_text())
    del changed["parameters"]["commands"]["allowedPattern"]
    region.server.documents.create("unstick-changed", json.dumps(changed))

    refused = (ReportState.NOT_STARTED, NotStarted.REFUSED, None, False)
    assert ran(region, "changed", by=endpoint(document="unstick-changed", document_hash=HASH)) == refused
