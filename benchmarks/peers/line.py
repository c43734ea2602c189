"""The line that every peer prints: the same keys for all, and those that `rivermeet bench` prints of them."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

MODULUS = 2**63


def epoch_files(data: Path) -> list[Path]:
    """Files of the epochs, in order."""
    return sorted(data.glob("epoch_*.parquet"))


def print_line(
    peer: str, workload: str, data: Path, seconds: Sequence[float], answer: Sequence[int], durability: str
) -> None:
    """Print the line.

    Parameters
    ----------
    seconds
        Of each epoch; that of the first is the initial load, but in ``ss``, where all are alike.
    answer
        Rows and checksum after the last epoch.
    durability
        What outlives a crash once an epoch has ended.
    """
    later = seconds if workload == "ss" else seconds[1:]
    line = {
        "peer": peer,
        "workload": workload,
        "rows_in": sum(pq.read_metadata(file).num_rows for file in epoch_files(data)),
        "seconds_initial": round(seconds[0], 3),
        "seconds_per_epoch": round(sum(later) / max(1, len(later)), 3),
        "epochs": [round(s, 3) for s in seconds],
        "final_rows": answer[0],
        "checksum": int(answer[1] or 0) % MODULUS,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "durability": durability,
    }
    print(json.dumps(line), flush=True)


def to_disk(path: Path) -> None:
    """Wait until a file is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
