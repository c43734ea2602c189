"""An epoch that must not be committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class EpochRefusedError(RuntimeError):
    """An epoch that must not be planned or committed; the message says why, and what mends it."""

    replan = False
    """Whether the plan is passed over, so that mended inputs can be planned anew."""
    epoch: int | None = None
    """The epoch, where its audit refused it."""
    found: Sequence[Any] = ()
    """What the audit found of each invariant."""
