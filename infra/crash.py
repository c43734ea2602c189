"""Named points at which a test kills the process, as a power cut would."""

from __future__ import annotations

import os
import signal

POINTS = (
    "planned",
    "slot-named",
    "slot-made",
    "landed",
    "snapshot-noted",
    "advanced",
    "computed",
    "sides-written",
    "committed",
    "recorded",
    "merged",
    "folded",
    "refused",
    "decided",
    "rebuilt",
    "maintained",
    "sending",
    "marked",
    "delivered",
)
SETTING = "RIVERMEET_CRASH_AT"


def crash_at(point: str, node: str) -> None:
    """Die here with SIGKILL if ``RIVERMEET_CRASH_AT`` says ``POINT`` or ``POINT:NODE``."""
    assert point in POINTS, point
    if os.environ.get(SETTING) in (point, f"{point}:{node}"):
        os.kill(os.getpid(), signal.SIGKILL)
