"""The socket on which the service listens, bound before anything else begins."""

import socket

from service.domain.errors import ConfigInvalid


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; ConfigInvalid when the address cannot be had."""
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=1024,
        )
    except OSError as error:
        raise ConfigInvalid(
            f"The service cannot listen on {host}:{port}: {error.strerror}.",
            "Set UNSTICK_HOST and UNSTICK_PORT to a free address.",
        ) from error


def url_of(listener: socket.socket) -> str:
    """Return the address of the service for a client."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
