"""A broker and a schema registry on this machine, to try out topics: ``make kafka``.

    rivermeet: a broker and a schema registry run on this machine; Ctrl-C ends them
    export RIVERMEET_KAFKA=127.0.0.1:9092
    export RIVERMEET_SCHEMA_REGISTRY=http://127.0.0.1:8081/apis/ccompat/v7

``PORT`` and ``REGISTRY_PORT`` choose others. Both keep what they have in folders that are removed when they end.
"""

from __future__ import annotations

import os
import signal
import sys

from rivermeet.infra.engine.jars import JarsError
from rivermeet.infra.engine.java import JavaError
from tests.servers.broker import running
from tests.servers.java_server import ServerError
from tests.servers.schema_registry import registry_running


def main() -> None:
    """Run both until Ctrl-C or SIGTERM (`python -m tests.servers.local`)."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ports = int(os.environ.get("PORT", 9092)), int(os.environ.get("REGISTRY_PORT", 8081))
    try:
        with running(port=ports[0]) as broker, registry_running(ports[1]) as registry:
            print("rivermeet: a broker and a schema registry run on this machine; Ctrl-C ends them", file=sys.stderr)
            print(f"export RIVERMEET_KAFKA={broker.address}")
            print(f"export RIVERMEET_SCHEMA_REGISTRY={registry.url}", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass
    except (ServerError, JarsError, JavaError) as error:
        sys.exit(f"rivermeet: {error}")


if __name__ == "__main__":
    main()
