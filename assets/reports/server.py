"""The reports, read only, for browsers of this machine: ``python -m rivermeet.assets.reports.server FOLDER PORT``.

It stops when its standard input ends, and so with the process that started it, however that ends.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from threading import Thread

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rivermeet.infra.settings import HOST

FIRST = ("quality.html", "gx/docs/index.html")
"""What the bare address shows: the first of these that is there."""


def application(folder: Path) -> Starlette:
    """Serve a folder's files; no listings, nothing outside of it, and to no page that borrows our address."""

    def first(_: Request) -> RedirectResponse:
        return RedirectResponse(next((page for page in FIRST if (folder / page).is_file()), FIRST[0]))

    return Starlette(
        routes=[Route("/", first), Mount("/", StaticFiles(directory=folder))],
        # A name of elsewhere that is made to mean this machine would let that site read the reports.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])],
    )


def _serve(folder: Path, port: int) -> None:
    # There is nothing to start or to end with the application; a signal would cancel it, with a traceback.
    config = uvicorn.Config(application(folder), host=HOST, port=port, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)

    def stop_with_parent() -> None:
        # Not through sys.stdin, whose lock the thread would still hold when the interpreter ends.
        while os.read(0, 4096):
            pass
        server.should_exit = True

    Thread(target=stop_with_parent, daemon=True).start()
    # The server ends at SIGINT by itself; then it raises the signal again, for the handler that was there before.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server.run()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
