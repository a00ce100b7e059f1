"""The API server: HTTPS on loopback, a token, and the calls that `kubectl` and other clients make of nodes and pods."""

import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

from lab.closing import Closing
from lab.kube import objects, paths, tables
from lab.kube.cluster import Cluster, Refused
from lab.kube.faults import Call, Fault
from lab.kube.kubeconfig import make_certificate, write_kubeconfig
from lab.kube.objects import Object
from lab.kube.paths import Asked
from lab.kube.permissions import Permissions
from lab.kube.selecting import by_fields, by_labels, page

TABLE = "as=Table"


class KubeServer(Closing):
    """A running API server; `kubeconfig` is the file for kubectl. Without `permissions` everything is allowed."""

    def __init__(self, folder: Path, cluster: Cluster, *, permissions: Permissions | None = None) -> None:
        """Make certificate, token and kubeconfig in a folder of its own, and listen."""
        self.cluster = cluster
        self.permissions = permissions
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self.token = objects.metadata("token")["uid"]
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = make_certificate(folder)
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.kube = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.port = int(self._http.server_address[1])
        self.kubeconfig = write_kubeconfig(folder, port=self.port, certificate=certificate, token=self.token)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and end what the cluster waits for."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self.cluster.close()

    def seen(self, verb: str, part: str = "") -> list[str]:
        """Return the calls so far of a verb whose path has this part."""
        return [str(call) for call in list(self.calls) if call.verb == verb and part in call.path]

    def answer(self, asked: Asked, body: Object) -> tuple[int, Object]:
        """Return code and body for a request that no fault takes."""
        told = paths.discovery(asked.path)
        if told is not None:
            return 200, told
        try:
            return self._answer(asked, body)
        except Refused as refused:
            return int(refused.status["code"]), refused.status
        except ValueError as error:
            return 400, objects.status(400, "BadRequest", str(error))

    def _answer(self, asked: Asked, body: Object) -> tuple[int, Object]:
        verb = asked.api_verb
        if verb is None or asked.resource not in self.cluster.kept:
            return 404, objects.status(404, "NotFound", "the server could not find the requested resource")
        if self.permissions is not None:
            kind = f"{asked.resource}/{asked.sub}" if asked.sub else asked.resource
            if not self.permissions.permits(verb, asked.group, kind, asked.name):
                message = (
                    f'{asked.resource} "{asked.name}" is forbidden: User "unstick" cannot {verb} resource "{kind}"'
                )
                return 403, objects.status(403, "Forbidden", message)
        dry_run = asked.query.get("dryRun") == "All" or "All" in (body.get("deleteOptions") or {}).get("dryRun", [])
        place = (asked.namespace, asked.name)
        match verb:
            case "list":
                return 200, self._list(asked)
            case "get":
                return 200, self._get(asked)
            case "patch":
                kind = asked.content_type
                return 200, self.cluster.patch(asked.resource, place, body, kind=kind, dry_run=dry_run)
            case "create" if asked.sub == "eviction":
                return 201, self.cluster.evict(place, dry_run=dry_run)
            case "delete" if asked.resource == "pods":
                pod = self.cluster.get("pods", *place)
                if not dry_run:
                    self.cluster.delete_pod(place, grace=body.get("gracePeriodSeconds"))
                return 200, pod
            case _:
                return 405, objects.status(405, "MethodNotAllowed", "the server does not allow this method")

    def _list(self, asked: Asked) -> Object:
        items = by_fields(self.cluster.all(asked.resource, asked.namespace), asked.query.get("fieldSelector", ""))
        items = by_labels(items, asked.query.get("labelSelector", ""))
        limit = int(asked.query.get("limit") or 0)
        items, following = page(items, limit, asked.query.get("continue", ""))
        meta = {"resourceVersion": objects.next_version()} | ({"continue": following} if following else {})
        kind, version = paths.KINDS[asked.resource]
        if TABLE in asked.accept:
            return tables.table(kind, items, meta)
        return {"kind": f"{kind}List", "apiVersion": version, "metadata": meta, "items": items}

    def _get(self, asked: Asked) -> Object:
        found = self.cluster.get(asked.resource, asked.namespace, asked.name)
        if TABLE in asked.accept:
            kind, _ = paths.KINDS[asked.resource]
            return tables.table(kind, [found], {"resourceVersion": found["metadata"]["resourceVersion"]})
        return found


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    kube: KubeServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    server: _Http

    def setup(self) -> None:
        """Shake hands in this thread, so that a slow client holds nobody up."""
        self.request.settimeout(self.timeout)
        self.request.do_handshake()
        super().setup()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing; the calls are kept."""

    def do(self) -> None:
        """Answer one request."""
        kube, url = self.server.kube, urlparse(self.path)
        data = self._body()
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        content, accept = self.headers.get("Content-Type", ""), self.headers.get("Accept", "")
        asked = Asked.of(self.command, url.path, query=query, content_type=content, accept=accept)
        fault = next((one for one in kube.faults if one.takes(self.command, url.path)), None)
        if fault is not None:
            time.sleep(fault.delay)
        if self.headers.get("Authorization") != f"Bearer {kube.token}":
            code, told = 401, objects.status(401, "Unauthorized", "Unauthorized")
        elif fault is not None and not fault.after and fault.code:
            code, told = fault.code, objects.status(fault.code, fault.reason, fault.message)
        else:
            code, told = kube.answer(asked, json.loads(data) if data.strip() else {})
        kube.calls.append(Call(self.command, url.path, url.query, code))
        if fault is not None and fault.cut:
            self.close_connection = True
            return
        with kube.cluster.lock:
            answer = json.dumps(told).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        if fault is not None and fault.retry_after is not None:
            self.send_header("Retry-After", str(fault.retry_after))
        self.end_headers()
        self.wfile.write(answer)

    def _body(self) -> bytes:
        """Read the body; `kubectl create --raw` sends it in chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do  # noqa: N815
