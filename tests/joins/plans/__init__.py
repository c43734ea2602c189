"""Skeletons of the operators' physical plans on record; ``python -m tests.joins.plans`` writes them again."""

from pathlib import Path

FOLDER = Path(__file__).parent
