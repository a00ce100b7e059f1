"""The floor of a webhook: a FastAPI endpoint that reads a body and answers; `python -m bench.bare` serves it."""

import socket

import uvicorn
from fastapi import FastAPI, Request


def create_app() -> FastAPI:
    """Return the application."""
    app = FastAPI()

    @app.post("/webhooks/{source}", status_code=202)
    async def deliver(source: str, request: Request) -> dict[str, str | int]:
        return {"source": source, "bytes": len(await request.body())}

    return app


def main() -> None:
    """Serve on a free port of loopback, and print the address when somebody may connect."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        # As the service does.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"bare serves on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        server = uvicorn.Server(uvicorn.Config(create_app(), log_level="warning", access_log=False))
        server.run(sockets=[listener])


if __name__ == "__main__":
    main()
