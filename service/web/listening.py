"""The socket on which the service listens, bound before anything else begins."""

import socket

from service.domain.errors import ConfigInvalid


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; ConfigInvalid when the address cannot be had."""
    try:
        listener = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=1024,
        )
    except OSError as error:
        raise ConfigInvalid(
            f"The service cannot listen on {host}:{port}: {error.strerror}.",
            "Set UNSTICK_HOST and UNSTICK_PORT to a free address.",
        ) from error
    # Connections inherit it. asyncio sets it only where the protocol of a socket is named, which create_server does not
    # do; without it the second half of each answer on a kept connection waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the address of the service for a client."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
