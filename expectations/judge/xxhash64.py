"""Spark's ``xxhash64`` in numpy, which DuckDB lacks for the rule about a foreign key's hash.

A struct is hashed field by field, an array value by value, each with the hash before it as its seed, 42 at first. A
null leaves the hash as it was:

    {n: 7}        long(7, seed 42)
    {n: null}     42

Source: the xxHash specification, 64 bits; Spark's choice of widths by type. Held by
``tests/expectations/judge/test_xxhash64.py``, against Spark's own.
"""

from __future__ import annotations

from decimal import Context

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
_SEED = 42
_LONG_DIGITS = 18
"""Decimals of up to so many digits are hashed as whole numbers, others by their bytes."""
_EXACT = Context(prec=38)
"""Python's own rounds to 28 digits."""


def as_bigint(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The hash of each value.

    Raises
    ------
    NotImplementedError
        For values of a type that has no hash, such as a MAP.
    """
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    with np.errstate(over="ignore"):
        return pa.array(_hash_values(array, np.full(len(array), _SEED, np.uint64)).view(np.int64))


def _hash_values(array: pa.Array, seed: np.ndarray) -> np.ndarray:
    kind = array.type
    if pa.types.is_struct(kind):
        found = seed
        for place in range(kind.num_fields):
            found = _hash_values(array.field(place), found)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        found = _of_lists(array, seed)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = _of_bytes(array.fill_null("").cast(pa.large_binary()), seed)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        found = _of_bytes(array.fill_null(b"").cast(pa.large_binary()), seed)
    elif pa.types.is_decimal(kind) and kind.precision > _LONG_DIGITS:
        # As Java writes a BigInteger: the fewest bytes in two's complement, the highest first.
        sizes = [(one if one >= 0 else ~one).bit_length() // 8 + 1 for one in _unscale(array)]
        texts = [one.to_bytes(size, "big", signed=True) for one, size in zip(_unscale(array), sizes, strict=True)]
        found = _of_bytes(pa.array(texts, pa.large_binary()), seed)
    else:
        numbers = _numbers(array)
        found = _of_block(numbers.view(np.uint8).reshape(len(numbers), numbers.itemsize), seed)
    return np.where(array.is_null().to_numpy(zero_copy_only=False), seed, found)


def _numbers(array: pa.Array) -> np.ndarray:
    """Values that are hashed as the 4 bytes of an INT or a FLOAT, or the 8 of a BIGINT or a DOUBLE; null is 0."""
    kind = array.type
    if pa.types.is_decimal(kind):
        return np.array(_unscale(array), np.int64)
    if pa.types.is_floating(kind):
        # Zero has one hash, and so has NaN.
        values = array.fill_null(0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(values), np.nan, values).astype(values.dtype)
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_boolean(kind) or pa.types.is_date32(kind) or pa.types.is_signed_integer(kind):
        array = array.cast(pa.int64() if pa.types.is_int64(kind) else pa.int32())
    else:
        raise NotImplementedError(f"xxhash64 of {kind}")
    return array.fill_null(0).to_numpy(zero_copy_only=False)


def _unscale(array: pa.Array) -> list[int]:
    return [0 if one is None else int(one.scaleb(array.type.scale, _EXACT)) for one in array.to_pylist()]


def _of_lists(array: pa.Array, seed: np.ndarray) -> np.ndarray:
    found = seed.copy()
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    for place in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > place)
        found[rows] = _hash_values(
            pc.call_function("list_element", [array.take(pa.array(rows)), pa.scalar(place)]), found[rows]
        )
    return found


def _of_bytes(array: pa.Array, seed: np.ndarray) -> np.ndarray:
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    sizes, found = np.diff(ends), seed.copy()
    for size in np.unique(sizes):
        # Texts of one length at a time, as a matrix.
        rows = np.flatnonzero(sizes == size)
        found[rows] = _of_block(np.ascontiguousarray(raw[ends[rows][:, None] + np.arange(size)]), seed[rows])
    return found


def _of_block(block: np.ndarray, seed: np.ndarray) -> np.ndarray:
    size, at = block.shape[1], 0

    def number(start: int, kind: type[np.unsignedinteger], width: int) -> np.ndarray:
        return np.ascontiguousarray(block[:, start : start + width]).view(kind)[:, 0].astype(np.uint64, copy=False)

    found = seed + _P5
    if size >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
        while at + 32 <= size:
            for lane in range(4):
                lanes[lane] = _rotate(lanes[lane] + number(at + 8 * lane, np.uint64, 8) * _P2, 31) * _P1
            at += 32
        found = _rotate(lanes[0], 1) + _rotate(lanes[1], 7) + _rotate(lanes[2], 12) + _rotate(lanes[3], 18)
        for lane in lanes:
            found = (found ^ (_rotate(lane * _P2, 31) * _P1)) * _P1 + _P4
    found = found + np.uint64(size)
    while at + 8 <= size:
        word = _rotate(number(at, np.uint64, 8) * _P2, 31) * _P1
        found, at = _rotate(found ^ word, 27) * _P1 + _P4, at + 8
    if at + 4 <= size:
        found, at = _rotate(found ^ (number(at, np.uint32, 4) * _P1), 23) * _P2 + _P3, at + 4
    while at < size:
        found, at = _rotate(found ^ (block[:, at].astype(np.uint64) * _P5), 11) * _P1, at + 1
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return found ^ (found >> np.uint64(32))


def _rotate(x: np.ndarray, by: int) -> np.ndarray:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))
