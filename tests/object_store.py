"""An S3 server for tests (moto), and what a process needs to reach it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

SECRET = "kept-out-of-everything"


@contextmanager
def serving() -> Iterator[str]:
    """The endpoint of a server that forgets all when it ends.

    A process of its own: calls of delta-rs hold Python's lock while they wait for an answer.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _answers(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _answers(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "moto ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("moto did not start within a minute")


def environment(endpoint: str) -> Mapping[str, str]:
    """Variables by which all clients find the server."""
    return {
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def make_bucket(endpoint: str, name: str) -> None:
    import boto3

    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket=name)
