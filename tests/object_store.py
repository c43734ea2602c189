"""An S3 server for tests, and what a process needs to reach it.

It is moto, which is installed with the other packages; or versitygw, where ``RIVERMEET_TEST_VERSITYGW`` names its
program: that checks signatures, keeps objects as files, and answers faster.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

ID, SECRET = "tests", "kept-out-of-everything"
VERSITYGW = os.environ.get("RIVERMEET_TEST_VERSITYGW")


@contextmanager
def serving() -> Iterator[str]:
    """The endpoint of a server that forgets all when it ends.

    A process of its own: calls of delta-rs hold Python's lock while they wait for an answer.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        if VERSITYGW is None:
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        else:
            command = [VERSITYGW, "--port", f"127.0.0.1:{port}", "posix", folder]
        known = {"ROOT_ACCESS_KEY": ID, "ROOT_SECRET_KEY": SECRET}
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **known}
        )
        try:
            _answers(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _answers(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("the server did not start within a minute")


def environment(endpoint: str) -> Mapping[str, str]:
    """Variables by which all clients find the server."""
    return {
        "AWS_ACCESS_KEY_ID": ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def make_bucket(endpoint: str, name: str) -> None:
    import boto3

    known = {"aws_access_key_id": ID, "aws_secret_access_key": SECRET}
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **known).create_bucket(Bucket=name)
