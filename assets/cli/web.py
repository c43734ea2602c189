"""Dagster's web page and daemon, and the reports beside it, on this machine only, with history kept."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import psutil

from rivermeet.assets.cli.terminal import echo
from rivermeet.assets.defs.runs import close_runs_left, prepare_instance
from rivermeet.assets.project import Project
from rivermeet.infra.settings import HOST, Settings

PAGE_ENDS_WITHIN = 10
"""Seconds from a signal until nothing of the page runs any more."""


def serve(port: int) -> None:
    """Run ``dagster dev`` and the server of reports until a signal or their end; ClickException where a port is taken.

    SIGINT (Ctrl-C), SIGTERM (a service manager) and SIGHUP (a closed terminal) end all that was started within
    `PAGE_ENDS_WITHIN` seconds, but for the warm engine, which others may use and which stops when idle.
    """
    _require_port(port, "choose another with --port")
    project = Project.find()
    settings = project.settings
    if settings.reports_port == port:
        raise click.ClickException(f"port {port} is that of the reports; choose another with --port")
    _require_port(settings.reports_port, "choose another for the reports with RIVERMEET_REPORTS_PORT")
    prepare_instance(settings)
    for line in close_runs_left(settings):
        echo(line)
    # It recommends a tool that knows other layouts of a project only.
    quiet = {"PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", "ignore:Function `dev_command` is superseded")}
    env = {**os.environ, **settings.environ(), **quiet}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    started = [_reports(settings, env)]
    try:
        echo(f"Dagster on http://{HOST}:{port} (Ctrl-C stops it; the history stays)")
        echo(f"reports on http://{HOST}:{settings.reports_port}")
        dagster = str(Path(sys.executable).with_name("dagster"))
        options = [*code_location(project.root), "-h", HOST, "-p", str(port)]
        page = subprocess.Popen([dagster, "dev", *options], cwd=project.root, env=env)
        started.append(page)
        sys.exit(page.wait())
    except KeyboardInterrupt:
        echo("ending")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _end(started)


def code_location(root: Path) -> list[str]:
    """What `dagster dev` loads of a project: its workspace, or its definitions, or else its pipelines alone."""
    if (root / "workspace.yaml").is_file():
        return ["-w", "workspace.yaml"]
    return ["-f", "definitions.py"] if (root / "definitions.py").is_file() else ["-m", "rivermeet.assets.definitions"]


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask what was started to end; what has not ended in time is killed, with all below it."""
    running = [process for process in started if process.poll() is None]
    family = _family(running)
    for process in running:
        process.send_signal(signal.SIGINT)
    slow = psutil.wait_procs(family, timeout=PAGE_ENDS_WITHIN - 3)[1]
    # What was started meanwhile stands below what is slow.
    late = {*slow, *_family([process for process in running if process.poll() is None])}
    for process in late:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(late, timeout=2)


def _family(processes: Sequence[subprocess.Popen[bytes]]) -> list[psutil.Process]:
    """The processes and all below them, but for an engine, which a run may have started."""
    found: list[psutil.Process] = []
    waiting = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            waiting.append(psutil.Process(process.pid))
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(psutil.NoSuchProcess):
            if "rivermeet.infra.engine.server" not in one.cmdline():
                found.append(one)
                waiting += one.children()
    return found


def _require_port(port: int, otherwise: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise click.ClickException(f"port {port} is taken; stop what uses it, or {otherwise}") from None


def _reports(settings: Settings, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """The server of reports; it ends with its input, and so with this process, however that ends."""
    settings.reports.mkdir(parents=True, exist_ok=True)
    # Without -P, Python looks for modules in the current folder first: a dagster.py there would be Dagster.
    program = [sys.executable, "-P", "-m", "rivermeet.assets.reports.server"]
    program += [str(settings.reports), str(settings.reports_port)]
    return subprocess.Popen(program, stdin=subprocess.PIPE, env=env)
