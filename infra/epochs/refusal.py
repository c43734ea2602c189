"""An epoch that must not be committed (``infra/refusal.py``)."""

from rivermeet.infra.refusal import EpochRefusedError

__all__ = ["EpochRefusedError"]
