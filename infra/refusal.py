"""An epoch that must not be committed."""

from __future__ import annotations

from rivermeet.pipelines.errors import RivermeetError


class EpochRefusedError(RivermeetError):
    """An epoch that must not be planned or committed; the message says why, and how to fix it."""

    remedy = "Do what the message says, and run again; nothing was committed."

    replan = False
    """Whether the plan is skipped, so that corrected inputs can be planned again."""
