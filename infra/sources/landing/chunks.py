"""The folder of an attempt at an epoch, and rows in chunks that fit into memory.

    home/landing/shop/orders/epoch-7-5f0c…/    of this attempt
    home/landing/shop/orders/epoch-6-a41e…/    of an epoch that is done, or of an attempt that died: removed by the next

Held by ``tests/infra/sources/kafka/test_reading.py`` and ``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

_Row = TypeVar("_Row")


def new_folder(node_folder: Path, epoch: int) -> Path:
    """A new one; those of attempts before are removed with their files."""
    shutil.rmtree(node_folder, ignore_errors=True)
    folder = node_folder / f"epoch-{epoch}-{uuid4().hex}"
    folder.mkdir(parents=True)
    return folder


def in_chunks(rows: Iterable[_Row], most: int, most_bytes: int, size: Callable[[_Row], int]) -> Iterator[list[_Row]]:
    """Rows, so many at a time, or fewer where these have so many bytes.

    Parameters
    ----------
    size
        Bytes of a row, about.
    """
    chunk: list[_Row] = []
    held = 0
    for row in rows:
        chunk.append(row)
        held += size(row)
        if len(chunk) >= most or held >= most_bytes:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk
