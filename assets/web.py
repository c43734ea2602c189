"""Dagster's web page and daemon, and the reports beside it, on this machine only, with history kept."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import click

from assets.links import HOST
from assets.runs import prepare_instance
from infra.settings import PROJECT, Settings


def serve(port: int) -> None:
    """Replace this process by ``dagster dev``; ClickException where the port is taken."""
    _need(port, "choose another with --port")
    settings = Settings.from_env()
    if settings.reports_port == port:
        raise click.ClickException(f"port {port} is that of the reports; choose another with --port")
    _need(settings.reports_port, "choose another for the reports with RIVERMEET_REPORTS_PORT")
    prepare_instance(settings)
    _serve_reports(settings)
    # Absolute, for Dagster's processes run in the project's folder.
    os.environ.update(settings.environ())
    # It recommends a tool that knows other layouts of a project only.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:Function `dev_command` is superseded")
    os.chdir(PROJECT)
    click.echo(f"Dagster on http://{HOST}:{port} (Ctrl-C stops it; the history stays)")
    click.echo(f"reports on http://{HOST}:{settings.reports_port}")
    dagster = str(Path(sys.executable).with_name("dagster"))
    options = ["-w", "workspace.yaml", "-h", HOST, "-p", str(port)]
    os.execv(dagster, [dagster, "dev", *options])


def _need(port: int, otherwise: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise click.ClickException(f"port {port} is taken; stop what uses it, or {otherwise}") from None


def _serve_reports(settings: Settings) -> None:
    """Serve them for as long as this process lives, also after it has become Dagster's."""
    settings.reports.mkdir(parents=True, exist_ok=True)
    end, held = os.pipe()
    os.set_inheritable(held, True)
    program = [sys.executable, "-m", "assets.report_server", str(settings.reports), str(settings.reports_port)]
    subprocess.Popen(program, stdin=end, cwd=PROJECT)
    os.close(end)
