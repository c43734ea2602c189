"""A project's pipelines in Dagster beside assets of the user's own: merged, as a component, and by `rivermeet ui`."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from rivermeet.assets.cli.web import code_location
from rivermeet.assets.definitions import definitions
from rivermeet.assets.defs.keys import changelog_key, table_key
from rivermeet.assets.project import Project
from rivermeet.assets.scaffold.write import write_project
from tests.assets.test_init import run

PIPELINE = """
from rivermeet import Files, Pipeline
PIPELINE = Pipeline(
    "stock", group="warehouse", owners=["team:shop"], tags={"tier": "gold"}, key_prefix=["eu", "north"]
)
of = Files("*.json", "json", {"id": "STRING", "n": "INT", "at": "BIGINT"})
parts = PIPELINE.table("parts", of, key=["id"], timestamp="at")
parts.map_values({"n": "n + 1"}, "more")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_project(tmp_path / "shop")
    (tmp_path / "shop" / "pipelines" / "stock.py").write_text(PIPELINE)
    return tmp_path / "shop"


def test_they_are_merged_with_assets_of_ones_own(root: Path) -> None:
    project = Project.find(root)
    settled = project.pipeline("shop").node("settled")

    @dg.asset(deps=[changelog_key(settled)])
    def summary() -> None: ...

    merged = dg.Definitions.merge(definitions(project), dg.Definitions(assets=[summary]))
    graph = merged.resolve_asset_graph()
    assert graph.get(dg.AssetKey("summary")).parent_keys == {dg.AssetKey(["shop", "settled_changelog"])}
    assert {"shop", "stock", "shop_maintenance"} <= {job.name for job in merged.resolve_all_job_defs()}


def test_keys_groups_owners_and_tags_are_the_declared_ones(root: Path) -> None:
    project = Project.find(root)
    found = definitions(project)
    graph, stock = found.resolve_asset_graph(), project.pipeline("stock")
    more = graph.get(table_key(stock.node("more")))
    assert more.key.path == ["eu", "north", "stock", "more_table"]
    assert (more.group_name, more.owners, more.tags["tier"]) == ("warehouse", ["team:shop"], "gold")
    # The job has this pipeline's assets, whatever group others share with it.
    job = found.resolve_job_def("stock")
    assert {key.path[-1] for key in job.asset_layer.executable_asset_keys} == {
        *("parts_changelog", "parts_table", "more_changelog", "more_table")
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"group": "a b"}, "pipeline 'p': group has 'a b'; use letters"),
        ({"key_prefix": ["a/b"]}, "pipeline 'p': key_prefix has 'a/b'; use letters"),
        ({"owners": "me"}, r"pipeline 'p': 'me' is one text; give a list, \['me'\]"),
    ],
)
def test_what_dagster_could_not_show_is_refused(options: dict[str, object], says: str) -> None:
    from rivermeet.pipelines import Pipeline

    with pytest.raises(ValueError, match=says):
        Pipeline("p", **options)  # pyright: ignore[reportArgumentType]


def test_its_definitions_load_where_folders_have_our_names(root: Path) -> None:
    for clash in ("assets", "infra", "joins", "expectations", "pipelines"):
        (root / clash).mkdir(exist_ok=True)
        (root / clash / "__init__.py").write_text("HERE = True\n")
    (root / "records.py").write_text("HERE = True\n")
    program = (
        "import assets, definitions, infra, pipelines, records\n"
        "print(all(m.HERE for m in (assets, infra, pipelines, records)))\n"
        "print(len(list(definitions.defs.resolve_asset_graph().get_all_asset_keys())))"
    )
    done = run(["-c", program], root)
    assert done.stdout.split() == ["True", "10"], done.stdout + done.stderr


def test_a_component_does_the_same(root: Path, tmp_path: Path) -> None:
    # As Dagster's own scaffold lays a project out.
    module = tmp_path / "own" / "src" / "own"
    (module / "defs" / "joins").mkdir(parents=True)
    (module / "__init__.py").touch()
    (module / "defs" / "__init__.py").touch()
    (module / "defs" / "joins" / "defs.yaml").write_text(
        "type: rivermeet.dagster.RivermeetProject\nattributes:\n  project: ../../../../../shop\n"
    )
    (tmp_path / "own" / "pyproject.toml").write_text(
        '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "own"\n'
    )
    program = (
        "import dagster as dg, pathlib\n"
        f"defs = dg.load_from_defs_folder(path_within_project=pathlib.Path({str(module / 'defs')!r}))\n"
        "print(*sorted(key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()))"
    )
    done = run(["-c", program], tmp_path / "own" / "src")
    assert "shop/settled_changelog" in done.stdout.split(), done.stdout + done.stderr


def test_ui_loads_what_a_project_has(root: Path) -> None:
    assert code_location(root) == ["-f", "definitions.py"]
    (root / "workspace.yaml").touch()
    assert code_location(root) == ["-w", "workspace.yaml"]
    assert code_location(root / "data") == ["-m", "rivermeet.assets.definitions"]
