"""Where a process that is started elsewhere finds the packages of this repository."""

from __future__ import annotations

from rivermeet.infra.settings import PROJECT

SEARCHED = str(PROJECT)
