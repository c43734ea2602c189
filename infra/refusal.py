"""An epoch that must not be committed."""

from __future__ import annotations


class EpochRefusedError(RuntimeError):
    """An epoch that must not be planned or committed; the message says why, and what mends it."""

    replan = False
    """Whether the plan is passed over, so that mended inputs can be planned anew."""
