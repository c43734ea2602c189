"""Epochs: plans, the commit protocol, the epoch log."""
