"""Lines of text as they are cut: number and text of each."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from rivermeet.infra.sources.landing import lines
from rivermeet.infra.sources.landing.lines import members, read_lines, unreadable


def cut(data: bytes, delimiter: str | None = ",") -> list[tuple[int, str]]:
    found = read_lines(io.BytesIO(data), delimiter, lambda _: None)
    return [pair for numbers, texts in found for pair in zip(numbers.to_pylist(), texts.to_pylist(), strict=True)]


@pytest.fixture(params=[4 << 20, 7, 2], ids=["in one block", "in blocks of 7", "in blocks of 2"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file reads the same however its bytes come."""
    monkeypatch.setattr(lines, "BLOCK", request.param)


CUT = {
    b"": [],
    b"\n \n\t\n": [],
    b"a\nb": [(1, "a"), (2, "b")],
    b"a\r\nb\r\n": [(1, "a"), (2, "b")],
    b"a\rb\r\rc": [(1, "a"), (2, "b"), (4, "c")],
    b"a\n\n \nb \n": [(1, "a"), (4, "b ")],
    b"\xef\xbb\xbf\na\n\xef\xbb\xbfb\n": [(2, "a"), (3, "\ufeffb")],
    b"a\xff\n\xe2\x82\nb": [(1, "a\ufffd"), (2, "\ufffd"), (3, "b")],
    "a\u2028b\x0bc\x85\n".encode(): [(1, "a\u2028b\x0bc\x85")],
    b'x\n"a\n\nb",1\r\ny\n': [(1, "x"), (2, '"a\n\nb",1'), (5, "y")],
    b'"a\r\nb"\n\n"c\rd"\n': [(1, '"a\r\nb"'), (4, '"c\rd"')],
    b'x,"y\nz"\n"stray,1\nb,2\n': [(1, 'x,"y\nz"'), (3, '"stray,1'), (4, "b,2")],
}


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize(("data", "expected"), CUT.items(), ids=repr)
def test_lines_and_their_numbers(data: bytes, expected: list[tuple[int, str]]) -> None:
    assert cut(data) == expected


@pytest.mark.usefixtures("block")
def test_a_quote_of_json_holds_no_line_break() -> None:
    assert cut(b'{"a\nb"}\n', None) == [(1, '{"a'), (2, 'b"}')]


def test_a_line_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a megabyte of gzip, 512 MB of zeros: refused once the bound is passed, with no more of it in memory."""
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 20)
    bomb = gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(b"id\n" + bytes(64 << 20))))
    spent = list[int]()
    with pytest.raises(ValueError, match="it has a line of more than 1,048,576 bytes") as refused:
        for _ in read_lines(bomb, ",", spent.append):  # pyright: ignore[reportArgumentType]
            pass
    assert sum(spent) <= lines.LONGEST_LINE + 2 * lines.BLOCK
    assert unreadable("x.csv.gz", refused.value) == f"the file cannot be read: {refused.value}"


@pytest.mark.parametrize(
    "damage", [b"id\n", gzip.compress(b"id\n" * 999)[:-9], gzip.compress(b"id\n")[:-3]], ids=["text", "cut", "no end"]
)
def test_what_is_no_whole_gzip_file_says_so(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(damage)
    with pytest.raises((EOFError, OSError)) as raised:
        for _, stream in members(path.name, str(path)):
            list(read_lines(stream, ",", lambda _: None))
    assert unreadable(path.name, raised.value) == lines.NOT_GZIP
