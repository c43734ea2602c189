r"""Splits text files into lines, a block at a time: the number of each, and its text.

    id,name⏎             1   id,name
    a,one⏎               2   a,one
    ⏎                        blank lines are counted, but ignored
    b,"two⏎lines"⏎       4   b,"two⏎lines"        a quoted CSV field may span lines, and keeps the line breaks
    "stray,three⏎        6   "stray,three         an unclosed quote affects only its own line

Lines end with LF, CRLF or CR. Invalid UTF-8 becomes U+FFFD. Up to the first field that spans lines nothing is
done line by line in Python. This module runs in this process and on executors, which get it by value, so it
imports nothing of the project (``infra/sources/files/line_formats.py``).
Held by ``tests/infra/sources/landing/test_lines.py``.
"""

# pyarrow.compute makes its functions when it is imported.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import gzip
import io
import re
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Pickled by value: executors need not have the package.
from rivermeet.pipelines.limits import BLOCK_BYTES, CHUNK_LINES, FIELD_LINES, LINE_BYTES

NOT_GZIP = "the file cannot be read: it is no whole gzip file; deliver it again"
_BLANK = "".join(map(chr, range(33)))
_MARK = "\ufeff".encode()

Lines = Iterator[tuple[pa.Array, pa.Array]]
"""Numbers of lines, and their texts."""


def build_unclosed_pattern(delimiter: str) -> str:
    """Return the pattern, for Java and Python, of a CSV line whose last field opens a quote that does not close.

    Counting quotes would not suffice: in ``7,5" pipe`` the quote is text (test: stray quotes).
    Possessive, so that a long line costs one pass.
    """
    return rf'^(?:{field_pattern(delimiter)})*+"[^"]*+(?:""[^"]*+)*+(?![\s\S])'


def field_pattern(delimiter: str) -> str:
    """Give the pattern of a CSV field and the delimiter after it."""
    d = re.escape(delimiter)
    return rf'(?:"[^"]*+(?:""[^"]*+)*+"(?!")[^{d}]*+|[^"{d}][^{d}]*+)?+{d}'


def members(name: str, content: str | io.BytesIO) -> Iterator[tuple[str | None, IO[bytes]]]:
    """The unpacked streams of a file, by its path or its bytes: each CSV member of a zip archive, otherwise one.

    The suffix of ``name`` determines the compression.
    """
    if name.lower().endswith(".zip"):
        with zipfile.ZipFile(content) as archive:
            names = [n for n in sorted(archive.namelist()) if n.lower().endswith(".csv")]
            names = [n for n in names if n.rsplit("/", 1)[-1][0] not in "._"]
            if not names:
                raise ValueError("the archive has no member that ends in .csv")
            if len(names) > len(set(names)):
                twice = next(one for one in names if names.count(one) > 1)
                raise ValueError(f"the archive has two members of the name {twice}, and only the last can be read")
            for one in names:
                with archive.open(one) as stream:
                    yield one, stream
    elif name.lower().endswith(".gz"):
        with gzip.open(content) as stream:
            yield None, stream  # pyright: ignore[reportReturnType]
    else:
        with open(content, "rb") if isinstance(content, str) else content as stream:
            yield None, stream


def unreadable(name: str, error: Exception) -> str:
    """Why a file cannot be read, from the exception."""
    if name.lower().endswith(".gz") and isinstance(error, EOFError | gzip.BadGzipFile | zlib.error):
        return NOT_GZIP
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"the file cannot be read: {said}"


def read_lines(stream: IO[bytes], delimiter: str | None, spend: Callable[[int], None]) -> Lines:
    """Lines that are not blank, to the end of the stream, where gzip and zip compare checksums.

    Without a ``delimiter`` of CSV quotes have no meaning. ``spend`` is called with the bytes of each unpacked block; an
    exception ends the reading.
    """
    opens = re.compile(build_unclosed_pattern(delimiter)) if delimiter else None
    number, blocks = 1, _blocks(stream, spend)
    # There may be two, if a tool added one to a file that had one: Spark's reader removes both.
    first = next(blocks, b"").removeprefix(_MARK).removeprefix(_MARK)
    blocks = chain([first], blocks) if first else blocks
    for block in blocks:
        texts = _cut(block)
        if opens is not None and b'"' in block:
            quoted = texts.filter(pc.match_substring(texts, '"')).to_pylist()
            if any(map(opens.match, quoted)):
                yield from _record_by_record(chain([block], blocks), number, opens)
                return
        numbers = pa.array(np.arange(number, number + len(texts)))
        number += len(texts)
        filled = _mark_filled(texts)
        if filled is not None:
            numbers, texts = numbers.filter(filled), texts.filter(filled)
        if len(texts):
            yield numbers, texts


def _blocks(stream: IO[bytes], spend: Callable[[int], None]) -> Iterator[bytes]:
    """Whole lines, about a block of them at a time."""
    rest: list[bytes] = []
    held = 0
    while data := stream.read(BLOCK_BYTES):
        spend(len(data))
        cut = data.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, data[:cut]])
            rest, held = [], 0
        rest.append(data[cut:])
        held += len(data) - cut
        if held > LINE_BYTES:
            raise ValueError(f"it has a line of more than {LINE_BYTES:,} bytes")
    if any(rest):
        yield b"".join(rest)


def _cut(block: bytes) -> pa.Array:
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        block.decode()
    except UnicodeDecodeError:
        block = block.decode(errors="replace").encode()
    block = block.removesuffix(b"\n")
    ends = pa.py_buffer(np.array([0, len(block)], np.int64))
    whole = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(block)])
    return pc.split_pattern(whole, "\n").values.cast(pa.string())


def _mark_filled(texts: pa.Array) -> pa.Array | None:
    """Whether each line is not blank; None if none is blank. Most lines begin with another character."""
    first = pc.utf8_slice_codeunits(texts, 0, 1)
    if not pc.any(pc.is_in(first, pa.array(["", *_BLANK]))).as_py():
        return None
    return pc.not_equal(pc.utf8_trim(texts, characters=_BLANK), "")


def _record_by_record(blocks: Iterable[bytes], number: int, opens: re.Pattern[str]) -> Lines:
    """Lines of CSV from the block on in which a field first spans lines."""

    def split_ends() -> Iterator[tuple[int, str, str]]:
        lines = chain.from_iterable(io.StringIO(block.decode(errors="replace"), newline="") for block in blocks)
        for at, line in enumerate(lines, number):
            text = line.rstrip("\r\n")
            yield at, text, line[len(text) :]

    def records() -> Iterator[tuple[int, str]]:
        numbered = split_ends()
        ahead: deque[tuple[int, str, str]] = deque()
        while True:
            at, text, end = ahead.popleft() if ahead else next(numbered, (0, "", ""))
            if not at:
                return
            if '"' in text and opens.match(text):
                ahead.extend(islice(numbered, max(0, FIELD_LINES - len(ahead))))
                joined = text
                for used, (_, more, after) in enumerate(ahead, 1):
                    joined, end = f"{joined}{end}{more}", after
                    if '"' in more and not opens.match(joined):
                        text = joined
                        for _ in range(used):
                            ahead.popleft()
                        break
            if text.strip(_BLANK):
                yield at, text

    found = records()
    while chunk := list(islice(found, CHUNK_LINES)):
        numbers, texts = zip(*chunk, strict=True)
        yield pa.array(numbers, pa.int64()), pa.array(texts, pa.string())


WALKED = pa.schema(
    [
        ("uri", pa.string()),
        ("member", pa.string()),
        ("block", pa.int64()),
        ("row", pa.int64()),
        ("line", pa.int64()),
        ("text", pa.string()),
        ("problem", pa.string()),
    ]
)


def walk_files(batches: Iterable[pa.RecordBatch], delimiter: str, first_only: bool) -> Iterator[pa.RecordBatch]:
    """Lines of CSV files, for an executor: batches of ``uri, content`` to ``WALKED``.

    ``first_only`` yields the first line of each file or member, and reads it to the end to verify it; ``problem`` says
    why a file is damaged. Otherwise a damaged file fails the job.
    """

    def batch(uri: str, member: str | None, block: int, row: int, lines: Any, texts: Any, problem: str | None) -> Any:
        count = len(texts)
        each = [(uri, pa.string()), (member, pa.string()), (block, pa.int64())]
        place = [pa.repeat(pa.scalar(value, kind), count) for value, kind in each]
        columns = [*place, pa.array(np.arange(row, row + count)), lines, texts]
        return pa.RecordBatch.from_arrays([*columns, pa.repeat(pa.scalar(problem, pa.string()), count)], schema=WALKED)

    for files in batches:
        for uri, content in zip(*(column.to_pylist() for column in files.columns), strict=True):
            try:
                for block, (member, stream) in enumerate(members(uri, io.BytesIO(content))):
                    row = 0
                    for lines, texts in read_lines(stream, delimiter, lambda _: None):
                        if not first_only:
                            yield batch(uri, member, block, row, lines, texts, None)
                        elif not row:
                            yield batch(uri, member, block, 0, lines[:1], texts[:1], None)
                        row += len(texts)
            except Exception as error:
                if not first_only:
                    raise ValueError(f"file {uri}: {unreadable(uri, error)}") from error
                nothing = pa.nulls(1, pa.int64()), pa.nulls(1, pa.string())
                yield batch(uri, None, 0, -1, *nothing, unreadable(uri, error))
