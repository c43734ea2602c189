"""A way to an S3 server on which requests are refused, held up, and answered by nothing, at random.

    refused     503 SlowDown or 500 InternalError, and the server sees nothing
    unanswered  the server has done it, and the client hears nothing
    late        a fifth of a second
    copied      asked to copy an object, as a rename does; beside the others

``GET /__faults__`` gives how many of each there were. It is a process of its own (`between`).
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from time import sleep
from typing import ClassVar
from urllib.request import urlopen

SHARE = 0.06
"""Of requests, for each of the three."""
_SLOW_DOWN = 503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_BROKEN = 500, b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"
_OF_THE_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "server", "date"}


@contextmanager
def between(upstream: str, seed: int) -> Iterator[str]:
    """The endpoint of such a way to ``upstream``."""
    command = [sys.executable, "-m", "tests.faulty_s3", upstream.removeprefix("http://"), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def faults(endpoint: str) -> Counter[str]:
    """How many there were of each kind, and ``passed``."""
    with urlopen(f"{endpoint}/__faults__") as answer:
        return Counter(json.load(answer))


class Way(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    upstream = ""
    draw = random.Random()
    counts: ClassVar[Counter[str]] = Counter()
    turn = Lock()

    def do_GET(self) -> None:
        if self.path == "/__faults__":
            self._answer(200, {}, json.dumps(self.counts).encode())
            return
        body = self._body()
        with self.turn:
            drawn = self.draw.random()
            kinds = ("refused", "unanswered", "late")
            kind = kinds[int(drawn / SHARE)] if drawn < 3 * SHARE else "passed"
            self.counts[kind] += 1
            self.counts["copied"] += "x-amz-copy-source" in self.headers
        if kind == "refused":
            status, says = _SLOW_DOWN if drawn < SHARE / 2 else _BROKEN
            self._answer(status, {"Content-Type": "application/xml"}, says)
            return
        if kind == "late":
            sleep(0.2)
        upstream = HTTPConnection(self.upstream, timeout=60)
        upstream.request(
            self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() != "expect"}
        )
        answer = upstream.getresponse()
        content = answer.read()
        if kind == "unanswered":
            self.close_connection = True
            self.connection.close()
            return
        headers = {k: v for k, v in answer.getheaders() if k.lower() not in _OF_THE_HOP}
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, headers, content, length)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, status: int, headers: dict[str, str], content: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Says nothing about connections that clients or faults have closed."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass


if __name__ == "__main__":
    Way.upstream, Way.draw = sys.argv[1], random.Random(int(sys.argv[2]))
    server = Server(("127.0.0.1", 0), Way)
    print(server.server_port, flush=True)
    server.serve_forever()
