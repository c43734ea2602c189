"""One tree of errors: each has a code, its sentences as a file, and a row on the reference page.

After a change of a sentence: ``.venv/bin/python -m tests.project.error_texts`` writes files and page, to be read in
the diff.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rivermeet.assets.demo.feeds import feed
from rivermeet.assets.project import Project, demo_project
from rivermeet.assets.sql.query import CommittedState
from rivermeet.assets.why.keys import parse_key
from rivermeet.infra.engine.java import _find_installed
from rivermeet.infra.postgres.connection import refusal
from rivermeet.infra.postgres.refusals import ColumnMissingError
from rivermeet.infra.postgres.state import attach_source
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.files.csv import _fields
from rivermeet.pipelines import Files, JoinWindow, Pipeline, expr
from rivermeet.pipelines.errors import NotFoundError, RivermeetError
from tests.project.error_texts import ELSEWHERE, PAGE, SENTENCES, classes, errors, page, read, sentences

_FILES = Files("*.csv", "csv", {"id": "STRING", "n": "STRING", "at": "BIGINT"})


def test_every_error_is_of_the_tree_and_its_name_stands_once() -> None:
    assert {name: modules for name, modules in classes().items() if len(modules) > 1} == {}
    assert {*classes()} == {error.__name__ for error in errors()}


def test_every_code_is_unique_and_says_what_to_do() -> None:
    codes = [error.code for error in errors()]
    assert len(codes) == len({*codes})
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    assert [error.code for error in errors()[1:] if "remedy" not in vars(error)] == []


def test_the_sentences_are_those_of_the_files() -> None:
    made = {code: texts for code, texts in sentences().items() if texts}
    assert {file.stem: read(file.stem) for file in SENTENCES.glob("*.txt")} == made


def test_only_a_kind_has_no_sentences() -> None:
    alone = [error for error in errors() if not sentences()[error.code]]
    assert [error.code for error in alone if not error.__subclasses__()] == []


def test_the_reference_page_is_complete() -> None:
    assert PAGE.read_text("utf-8") == page()


def _shop() -> Pipeline:
    return Pipeline("shop")


def _clicks(**options: object) -> object:
    return _shop().stream("clicks", _FILES, **{"key": ["id"], "timestamp": "at", **options})  # pyright: ignore[reportArgumentType]


RAISED: list[tuple[str, Callable[[Path], object]]] = [
    ("declaration", lambda _: _clicks(timestamps="at")),
    ("declaration", lambda _: _clicks(key=["nope"])),
    ("option", lambda _: JoinWindow("1 week", 0)),
    ("option", lambda _: expr("x", "VARIANT")),
    ("option", lambda _: Pipeline("a b")),
    ("not-found", lambda _: demo_project().pipeline("nobody")),
    ("not-found", lambda _: _shop().node("nothing")),
    ("not-found", lambda home: feed("nobody", home)),
    ("settings", lambda _: Settings.from_env({"RIVERMEET_FOLD": "never"})),
    ("settings", lambda _: Settings.from_env({"RIVERMEET_ENGINE_PORT": "0x1"})),
    ("java", lambda home: _find_installed({"JAVA_HOME": str(home)})),
    ("key-text", lambda _: parse_key("id=1,2", pa.struct([("id", pa.string()), ("n", pa.string())]), "clicks")),
    ("query", lambda home: CommittedState(str(home), str(home / "quality")).ask("SELECT 1; SELECT 2", "1g", home)),
    ("postgres-refused", lambda _: _raise(refusal("XX000", "no space"))),
    ("slot-busy", lambda _: _raise(refusal("55006", "slot is active for PID 3"))),
    ("server-unavailable", lambda _: _raise(refusal(None, None))),
    ("unreadable", lambda _: [*_fields(iter([(pa.array([1]), pa.array(["id,at"]))]), _FILES, set())]),
    ("pipeline-file", lambda home: _broken(home)),
    ("project-file", lambda home: Project.find(home)),
]


def _raise(error: RivermeetError) -> None:
    raise error


def _broken(folder: Path) -> None:
    (folder / "rivermeet.toml").write_text("")
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "zz_broken.py").write_text("import nothing_of_that_name\n")
    Project.find(folder).pipeline("zz_broken")


@pytest.mark.parametrize(("code", "raising"), RAISED)
def test_what_is_raised_is_a_sentence_of_its_file(code: str, raising: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(RivermeetError) as raised:
        raising(tmp_path)
    error = raised.value
    assert error.code == code
    said = str(getattr(error, "problem", error))
    assert any(re.fullmatch(re.escape(text).replace("…", ".*"), said, re.DOTALL) for text in read(code)), said


FIELDS: list[tuple[Callable[[Path], object], dict[str, object]]] = [
    (lambda _: _clicks(timestamps="at"), {"pipeline": "shop", "node": "clicks"}),
    (lambda _: Settings.from_env({"RIVERMEET_FOLD": "never"}), {"variable": "RIVERMEET_FOLD"}),
    (lambda _: Settings.from_env({"RIVERMEET_ENGINE_PORT": "0x1"}), {"variable": "RIVERMEET_ENGINE_PORT"}),
    (
        lambda _: _raise(
            attach_source(
                ColumnMissingError("no column 'n'", (), table="s.t", column="n"), "shop.t", needs_snapshot=False
            )
        ),
        {"table": "s.t", "column": "n", "source": "shop.t"},
    ),
]


@pytest.mark.parametrize(("raising", "fields"), FIELDS)
def test_programs_read_what_the_sentence_names(
    raising: Callable[[Path], object], fields: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(RivermeetError) as raised:
        raising(tmp_path)
    assert {name: raised.value.fields.get(name) for name in fields} == fields


def test_each_sentence_that_no_call_has_is_raised() -> None:
    assert {*ELSEWHERE} <= {code for code, _ in RAISED}


def test_a_second_base_does_not_change_the_sentence() -> None:
    assert str(NotFoundError("no 'x'; there are 'y'")) == "no 'x'; there are 'y'"


def test_fields_of_the_message_go_before_those_of_a_caller() -> None:
    error = NotFoundError("no 'x'", node="x")
    error.within(pipeline="shop", node="y")
    assert error.fields == {"pipeline": "shop", "node": "x"}
