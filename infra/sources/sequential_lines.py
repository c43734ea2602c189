"""Lines of files walked from start to end: zip members, and fields that hold line breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.sources.discovery import spark_path
from infra.sources.line_formats import LINE_COLUMNS, Ranks, ranked, unclosed

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_FIELD = 1000
"""Lines that one quoted field may go over; beyond, the opening quote is taken for a stray one."""


def sequential_lines(spark: SparkSession, ranks: Ranks, delimiter: str, first_only: bool = False) -> DataFrame:
    """Give `LINE_COLUMNS` and ``problem``; a quoted field may hold line breaks, and keeps them as they are.

    ``first_only`` gives the first line of each file or member, and reads it to the end to know that
    it is sound; ``problem`` says there why a file is not. Without it an unsound file fails the job.
    Whole files are held in memory, so they must be under 2 GB.
    """
    scan = spark.read.format("binaryFile").load([spark_path(path) for path in ranks])
    lines = scan.select(F.col("_metadata.file_path").alias("uri"), "content").mapInArrow(
        _walker(unclosed(delimiter), first_only, LONGEST_FIELD),  # pyright: ignore[reportArgumentType]
        "uri STRING, member STRING, block BIGINT, row BIGINT, line BIGINT, text STRING, problem STRING",
    )
    return ranked(lines, scan.inputFiles(), ranks).select(*LINE_COLUMNS, "problem")


def _walker(
    unclosed: str, first_only: bool, longest: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # All in one closure: it goes to workers by value, and they need not have this package.
    def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gzip
        import io
        import re
        import zipfile
        from collections import deque
        from itertools import islice

        import pyarrow as pa

        opens = re.compile(unclosed)
        blank = "".join(map(chr, range(33)))

        def ended(lines: Iterator[str]) -> Iterator[tuple[int, str, str]]:
            for number, line in enumerate(lines, 1):
                text = line.rstrip("\r\n")
                yield number, text, line[len(text) :]

        def records(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
            numbered = ended(lines)
            ahead: deque[tuple[int, str, str]] = deque()
            while True:
                number, text, end = ahead.popleft() if ahead else next(numbered, (0, "", ""))
                if not number:
                    return
                if '"' in text and opens.match(text):
                    ahead.extend(islice(numbered, max(0, longest - len(ahead))))
                    joined = text
                    for used, (_, more, after) in enumerate(ahead, 1):
                        joined, end = f"{joined}{end}{more}", after
                        if '"' in more and not opens.match(joined):
                            text = joined
                            for _ in range(used):
                                ahead.popleft()
                            break
                if text.strip(blank):
                    yield number, text

        def members(uri: str, content: bytes) -> Iterator[tuple[str | None, Any]]:
            raw = io.BytesIO(content)
            if not uri.lower().endswith(".zip"):
                yield None, gzip.GzipFile(fileobj=raw) if uri.lower().endswith(".gz") else raw
                return
            with zipfile.ZipFile(raw) as archive:
                names = [n for n in sorted(archive.namelist()) if n.lower().endswith(".csv")]
                names = [n for n in names if n.rsplit("/", 1)[-1][0] not in "._"]
                if not names:
                    raise ValueError("the archive has no member that ends in .csv")
                for name in names:
                    yield name, archive.open(name)

        def rows(uri: str, content: bytes) -> Iterator[tuple[Any, ...]]:
            try:
                for block, (member, stream) in enumerate(members(uri, content)):
                    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
                    found = records(text)
                    for row, (number, line) in enumerate(islice(found, 1 if first_only else None)):
                        yield uri, member, block, row, number, line, None
                    while stream.read(1 << 20):
                        pass  # at the end the stream compares its checksum
            except Exception as error:
                if not first_only:
                    raise ValueError(f"file {uri} cannot be read: {error}") from error
                yield uri, None, 0, -1, None, None, str(error)

        names = ["uri", "member", "block", "row", "line", "text", "problem"]
        kinds = [pa.string()] * 2 + [pa.int64()] * 3 + [pa.string()] * 2
        for batch in batches:
            for uri, content in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                found = rows(uri, content)
                while chunk := list(islice(found, 10_000)):
                    columns = zip(zip(*chunk, strict=True), kinds, strict=True)
                    yield pa.RecordBatch.from_arrays([pa.array(c, k) for c, k in columns], names)

    return walk
