"""An epoch that must not be committed."""

from __future__ import annotations

from rivermeet.pipelines.errors import RivermeetError


class EpochRefusedError(RivermeetError):
    """An epoch that must not be planned or committed; the message says why, and what mends it."""

    remedy = "Do what the message says, and run again; nothing was committed."

    replan = False
    """Whether the plan is passed over, so that mended inputs can be planned anew."""
