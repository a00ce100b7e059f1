"""The socket on which the service listens."""

import socket

from service.web.listening import listen


def test_an_answer_in_two_parts_does_not_wait_for_an_acknowledgement() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
