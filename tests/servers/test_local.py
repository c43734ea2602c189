"""Broker and registry of this machine: both answer where they say, and nothing is left of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

pytest.importorskip("confluent_kafka")
from confluent_kafka.admin import AdminClient

from tests.servers.java_server import JavaServer, ServerError
from tests.servers.ports import free_port

pytestmark = pytest.mark.prove


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_make_kafka(how: signal.Signals, tmp_path: Path) -> None:
    port, other = free_port(), free_port()
    env = os.environ | {"PORT": str(port), "REGISTRY_PORT": str(other), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.local"], env=env, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().strip() for _ in range(2)]
        url = f"http://127.0.0.1:{other}/apis/ccompat/v7"
        assert lines == [f"export RIVERMEET_KAFKA=127.0.0.1:{port}", f"export RIVERMEET_SCHEMA_REGISTRY={url}"]
        assert AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=10).topics == {}
        with urlopen(f"{url}/subjects") as answer:
            assert answer.read() == b"[]"
        started = psutil.Process(process.pid).children(recursive=True)
        assert len(started) == 2
    finally:
        process.send_signal(how)
        assert process.wait(60) == 0
    assert not any(one.is_running() for one in started)
    assert [path.name for path in tmp_path.iterdir() if re.match("rivermeet-(kafka|registry)", path.name)] == []


def test_a_server_that_does_not_start() -> None:
    """Its last words are in the message."""
    with tempfile.TemporaryDirectory() as folder:
        server = JavaServer("broker", Path(folder))
        with pytest.raises(ServerError, match=r"the broker did not start: .*no\.such\.Program"):
            server.start(["no.such.Program"], lambda: False)
