"""A schema registry of a few lines on the loopback: ids to schemas, and what was asked for."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Schemas:
    """What it has, what it asks for (``user:password``), and the status that all its answers have if it fails."""

    known: dict[int, Any]
    url: str = ""
    user: str = ""
    fails: int = 0
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        self.asked.append(path)
        if self.fails:
            return self.fails, {}
        if self.user and authorization != f"Basic {base64.b64encode(self.user.encode()).decode()}":
            return 401, {"error_code": 401}
        found = self.known.get(int(path.split("/")[-1].partition("?")[0]))
        return (200, found) if found is not None else (404, {"error_code": 40403, "message": "Schema not found"})


@contextmanager
def served(known: Mapping[int, Any]) -> Iterator[Schemas]:
    """The registry, as long as the block lasts."""
    schemas = Schemas(dict(known))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = schemas.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        schemas.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield schemas
        server.shutdown()
        thread.join()
