"""Nodes that AWS manages, from the stand-in of its API."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lab.ssm import Instance, SsmServer
from service.domain.errors import SourceSilent
from service.inventory.source import Found, SsmQuestion
from service.inventory.ssm import SsmLook, look_at_account
from tests.inventory.sources import instance

HYBRID = "mi-0123456789abcdef0"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SsmServer]:
    with SsmServer(pace=0) as started:
        for name, value in started.environment().items():
            monkeypatch.setenv(name, value)
        yield started


def look(*, patience: float = 60.0, **asked: object) -> SsmLook:
    return SsmLook(SsmQuestion(None, None, **asked), answer_seconds=patience)  # type: ignore[arg-type]


def test_an_instance_is_found_with_its_ping_as_a_hint(server: SsmServer) -> None:
    server.add(Instance(instance(1), computer_name="gpu-01", tags={"pool": "h100"}, address="192.0.2.1"))
    server.add(Instance(HYBRID, computer_name="gpu-02", ping="ConnectionLost", address="192.0.2.2"))

    said = look(pools={"h100": "pool=h100"})()

    when = said.found["gpu-01"].hints["ssm_last_ping"]
    hints = {"ssm_agent": "3.3.1142.0", "ssm_last_ping": when}
    assert said.found == {
        "gpu-01": Found("gpu-01", instance(1), "192.0.2.1", ("h100",), hints={**hints, "ssm_ping": "Online"}),
        "gpu-02": Found("gpu-02", HYBRID, "192.0.2.2", hints={**hints, "ssm_ping": "ConnectionLost"}),
    }
    assert when.endswith("+00:00")


def test_every_page_is_read(server: SsmServer) -> None:
    for number in range(1, 121):
        server.add(Instance(instance(number), computer_name=f"gpu-{number:03}"))

    said = look()()

    assert (len(said.found), len(server.calls_of("DescribeInstanceInformation"))) == (120, 3)


@pytest.mark.parametrize("ids", [(1, 2), (2, 1)])
def test_two_instances_of_one_name_are_refused_with_both_ids_whatever_their_order(
    server: SsmServer, ids: tuple[int, int]
) -> None:
    for number in ids:
        server.add(Instance(instance(number), computer_name="gpu-01"))

    said = look()()

    assert said.found == {}
    assert said.refused == {"gpu-01": f"gpu-01 is the name of 2 machines: {instance(1)}, {instance(2)}."}


def test_a_name_by_tag_is_looked_up_by_a_filter_and_two_bearers_are_refused(server: SsmServer) -> None:
    for number, name in ((1, "gpu-01"), (2, "gpu-02"), (3, "gpu-02"), (4, "other")):
        server.add(Instance(instance(number), computer_name="same", tags={"Name": name}))

    said = look(names=("gpu-01", "gpu-02", "gpu-03"))()

    assert {name: one.instance for name, one in said.found.items()} == {"gpu-01": instance(1)}
    assert said.refused == {"gpu-02": f"gpu-02 is the name of 2 machines: {instance(2)}, {instance(3)}."}


def test_a_tag_narrows_what_is_found_also_under_a_name(server: SsmServer) -> None:
    server.add(Instance(instance(1), tags={"Name": "gpu-01", "unstick": "allowed"}))
    server.add(Instance(instance(2), tags={"Name": "gpu-01"}))

    said = look(tag="unstick=allowed", names=("gpu-01",))()

    assert {name: one.instance for name, one in said.found.items()} == {"gpu-01": instance(1)}


def test_what_is_no_linux_is_left_out(server: SsmServer) -> None:
    server.add(Instance(instance(1), computer_name="office", platform="Windows"))

    assert look()().found == {}


@pytest.mark.parametrize(
    ("outcome", "said"),
    [("deny", "AccessDenied"), ("expired", "Expired"), ("hang", "timeout"), ("cut", "closed|aborted|reset")],
)
def test_a_call_that_fails_says_that_nothing_is_known(server: SsmServer, outcome: str, said: str) -> None:
    server.add(Instance(instance(1)))
    server.faults.always(outcome, 1.0)

    with pytest.raises(SourceSilent, match=f"(?i)SSM did not answer: .*({said})"):
        look(patience=1.0 if outcome == "hang" else 60.0)()


def test_a_page_that_fails_is_no_shorter_answer(server: SsmServer) -> None:
    for number in range(1, 101):
        server.add(Instance(instance(number), computer_name=f"gpu-{number:03}"))
    server.faults.next("DescribeInstanceInformation", "ok", "deny")

    with pytest.raises(SourceSilent):
        look()()


def test_a_question_that_takes_too_long_is_given_up(server: SsmServer) -> None:
    server.add(Instance(instance(1)))

    with pytest.raises(SourceSilent, match="did not answer all of it within 0 s"):
        SsmLook(SsmQuestion(None, None), most_seconds=0.0)()


@pytest.mark.parametrize(
    "said", [b"{}", b'{"InstanceInformationList": [{"PingStatus": "Online"}]}', b'{"InstanceInformationList": null}']
)
def test_an_answer_that_is_no_list_of_instances_says_that_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSM", f"http://127.0.0.1:{proxy.server_port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "x")
        try:
            for ask in (SsmLook(SsmQuestion("eu-central-1", None)), _account):
                with pytest.raises(SourceSilent, match="is no list of instances"):
                    ask()
        finally:
            proxy.shutdown()


def _account() -> object:
    return look_at_account("eu-central-1", None, instances=[instance(1)])


def test_an_unknown_profile_says_so() -> None:
    with pytest.raises(SourceSilent, match="nobody"):
        SsmLook(SsmQuestion("eu-central-1", "nobody"))()
