"""Dagster's web page and daemon, on this machine only, with history kept."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import click

from assets.runs import prepare_instance
from infra.settings import PROJECT, Settings

HOST = "127.0.0.1"


def serve(port: int) -> None:
    """Replace this process by ``dagster dev``; ClickException where the port is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise click.ClickException(
                f"port {port} is taken; stop what uses it, or choose another with --port"
            ) from None
    settings = Settings.from_env()
    prepare_instance(settings)
    # Absolute, for Dagster's processes run in the project's folder.
    os.environ.update(settings.environ())
    # It recommends a tool that knows other layouts of a project only.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:Function `dev_command` is superseded")
    os.chdir(PROJECT)
    click.echo(f"Dagster on http://{HOST}:{port} (Ctrl-C stops it; the history stays)")
    dagster = str(Path(sys.executable).with_name("dagster"))
    options = ["-w", "workspace.yaml", "-h", HOST, "-p", str(port)]
    os.execv(dagster, [dagster, "dev", *options])
