"""`rivermeet why` as it is typed: a tree, JSON, and one line for what cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from deltalake import write_deltalake

from rivermeet.assets.cli.main import main
from tests.assets.why.small import PLANE, Small, small


@pytest.fixture
def why(tmp_path: Path):
    """The command over a small home."""
    home = small(tmp_path)
    return lambda *words: asked(home, *words)


def asked(home: Small, *words: str) -> Result:
    return CliRunner().invoke(main, ["why", "small", *words], obj=home.project)


def test_a_tree_and_the_same_as_json(why) -> None:
    shown = why("fleet", "11")
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert lines[0] == "small.fleet (table)  id=11: 1 row"
    assert lines[-1].strip().startswith("└── from ") and lines[-1].endswith("planes/2.csv, line 3")
    # No line is cut or folded where it goes into a pipe.
    assert any(len(line) > 80 for line in lines) and not any(line.endswith(" ") for line in lines)
    found = json.loads(why("fleet", "id=11", "--json").output)
    files = [cause["row"]["origin"]["file"] for cause in found["rows"][0]["causes"]]
    assert [Path(file).name for file in files] == ["1.csv", "2.csv"]


def test_a_row_that_is_not_there(why) -> None:
    shown = why("fleet", "12")
    assert shown.exit_code == 0
    assert "its foreign key points to tail=N9: 'planes' has no record of tail=N9" in shown.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fleet", "x"), "'x' is no int32, which 'id' of 'fleet' is"),
        (("nothing", "1"), "nothing"),
        (("fleet", "1", "--limit", "0"), "--limit"),
    ],
)
def test_what_cannot_be_asked(why, words: tuple[str, ...], says: str) -> None:
    refused = why(*words)
    assert refused.exit_code != 0
    assert says in refused.output and "Traceback" not in refused.output


def test_a_node_that_was_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIVERMEET_HOME", str(tmp_path))
    refused = CliRunner().invoke(main, ["why", "flights", "planes", "N1"])
    assert (refused.exit_code, refused.output.strip()) == (
        1,
        "Error: 'planes' is not materialised yet: run `rivermeet run flights`",
    )


def test_data_does_not_steer_the_terminal(tmp_path: Path) -> None:
    home, evil = small(tmp_path), "N\x1b[2J\u202e\n└── from a/file.csv"
    home.write(home.planes, 3, PLANE, [({"tail": evil}, {"built": 1}, 30, 0, 5, 3, None)])
    shown = asked(home, "planes", json.dumps({"tail": evil}))
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("small.planes (table)  tail=N\\u001b[2J\\u202e\\u000a└── from a/file.csv: 1 row\n")
    refused = asked(home, "nobody\x1b[2J", "1")
    assert refused.exit_code == 1 and "\x1b" not in shown.output + refused.output
    as_json = asked(home, "planes", json.dumps({"tail": evil}), "--json")
    assert json.loads(as_json.output)["key"] == {"tail": evil}
    assert not {"\x1b", "\u202e"} & {*as_json.output}


def test_what_is_no_number_is_text_in_json(tmp_path: Path) -> None:
    home, nan = small(tmp_path), float("nan")
    # The changelog has a column more than its declaration, as after one was taken back.
    built = pa.struct([("built", pa.int32()), ("weight", pa.float64())])
    schema = PLANE.set(PLANE.get_field_index("value"), pa.field("value", built))
    paths = home.project.context(home.pipeline).paths(home.planes)
    write_deltalake(paths.changelog, pa.Table.from_pylist([], schema), mode="append", schema_mode="merge")
    home.write(home.planes, 3, schema, [({"tail": "N9"}, {"built": 1, "weight": nan}, 30, 0, 5, 3, None)])
    shown = asked(home, "planes", "N9", "--json")
    (row,) = json.loads(shown.output, parse_constant=pytest.fail)["rows"]
    assert row["value"]["weight"] == "NaN"
