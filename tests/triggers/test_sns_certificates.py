"""The certificate of SNS is fetched from SNS alone, completed, kept, and never asked for without end."""

from collections.abc import Callable

import httpx
import pytest
from cryptography.hazmat.primitives import serialization

from service.domain.errors import Unauthenticated, Unavailable
from service.triggers.sns_certificates import SnsCertificates
from service.triggers.sns_signature import verify_sns
from tests.triggers.sns_messages import NOW, TOPIC, URL, Authority, authority, leaf, message, pem, signed

ABOVE = "http://crt.r2m01.amazontrust.com/r2m01.cer"
Answer = Callable[[httpx.Request], httpx.Response]


class Web:
    """What answers at each address, and what was asked; the time is the test's."""

    def __init__(self, by: Authority, answers: dict[str, httpx.Response | type[Exception]]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.seconds = 0.0
        self.certificates = SnsCertificates(
            transport=httpx.MockTransport(self.answer), roots=(by.root,), clock=lambda: self.seconds
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        found = self.answers.get(str(request.url), httpx.Response(404))
        if isinstance(found, httpx.Response):
            return httpx.Response(found.status_code, headers=found.headers, content=found.content)
        raise found("no answer")


@pytest.fixture(scope="module")
def amazon() -> Authority:
    return authority()


def alone(by: Authority, above: str = ABOVE) -> httpx.Response:
    return httpx.Response(200, content=pem(leaf(by, above=above)))


def authority_above(by: Authority) -> httpx.Response:
    return httpx.Response(200, content=by.below.public_bytes(serialization.Encoding.DER))


def test_a_certificate_that_comes_alone_is_completed_and_believed(amazon: Authority) -> None:
    web = Web(amazon, {URL: alone(amazon), ABOVE: authority_above(amazon)})

    fetch, roots = web.certificates.fetch, web.certificates.roots()
    verify_sns(signed(message()), {}, topics=(TOPIC,), fetch=fetch, roots=roots, now=NOW)

    assert web.asked == [URL, ABOVE]


def test_a_certificate_is_asked_for_once_a_day(amazon: Authority) -> None:
    web = Web(amazon, {URL: httpx.Response(200, content=amazon.pem)})

    for web.seconds in (0.0, 1.0, 86_399.0, 86_400.0):
        assert web.certificates.fetch(URL) == amazon.pem

    assert web.asked == [URL, URL]


@pytest.mark.parametrize(
    "above", ["http://169.254.169.254/a.cer", "http://crt.amazontrust.com.evil.example/a.cer", "file:///etc/passwd"]
)
def test_an_authority_at_a_foreign_address_is_not_asked(above: str, amazon: Authority) -> None:
    web = Web(amazon, {URL: alone(amazon, above)})

    assert web.certificates.fetch(URL) == web.answers[URL].content  # type: ignore[union-attr]
    assert web.asked == [URL]


def test_an_address_that_is_none_of_sns_is_not_asked(amazon: Authority) -> None:
    web = Web(amazon, {})

    with pytest.raises(Unauthenticated):
        web.certificates.fetch("https://evil.example/a.pem")
    assert web.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404),
        httpx.Response(403),
        httpx.Response(200, content=b"x"),
        httpx.Response(200, content=b"x" * 70_000),
    ],
)
def test_where_there_is_no_certificate_nobody_is_known_and_it_is_not_asked_again_at_once(
    answer: httpx.Response, amazon: Authority
) -> None:
    web = Web(amazon, {URL: answer})

    for web.seconds in (0.0, 59.0, 60.0):
        with pytest.raises(Unauthenticated):
            web.certificates.fetch(URL)

    assert web.asked == [URL, URL]


@pytest.mark.parametrize(
    "answer",
    [httpx.ConnectError, httpx.ReadTimeout, httpx.Response(503), httpx.Response(302, headers={"location": ABOVE})],
)
def test_without_an_answer_it_cannot_be_found_out_now(
    answer: httpx.Response | type[Exception], amazon: Authority
) -> None:
    web = Web(amazon, {URL: answer})

    for _ in range(2):
        with pytest.raises(Unavailable):
            web.certificates.fetch(URL)

    assert web.asked == [URL, URL]


def test_without_the_authority_it_cannot_be_found_out_now(amazon: Authority) -> None:
    web = Web(amazon, {URL: alone(amazon)})

    with pytest.raises(Unavailable):
        web.certificates.fetch(URL)


def test_addresses_without_end_are_not_all_asked_and_known_ones_stay_known(amazon: Authority) -> None:
    web = Web(amazon, {URL: httpx.Response(200, content=amazon.pem)})
    web.certificates.fetch(URL)

    for number in range(9):
        with pytest.raises(Unauthenticated):
            web.certificates.fetch(URL.replace("0123", f"{number:04}"))
    with pytest.raises(Unavailable):
        web.certificates.fetch(URL.replace("0123", "9999"))

    assert web.certificates.fetch(URL) == amazon.pem
    assert len(web.asked) == 10


def test_the_roots_are_amazons_own() -> None:
    roots = SnsCertificates().roots()

    assert {name.rfc4514_string() for root in roots for name in root.subject.rdns} >= {
        "O=Amazon",
        "CN=Amazon Root CA 1",
    }
