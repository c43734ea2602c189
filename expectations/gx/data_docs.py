"""Data Docs: Great Expectations' pages of what it judged, readable without a network.

A page is written when its validation is, alone: Great Expectations' own build lists the whole store each time, so that
its cost grows with every epoch. The index and the pages of suites are written once, at the end of a run.

    docs/index.html                                              newest validations
    docs/validations/shop-orders/epoch-000007/TIME/….html        one of them, with its bad rows
    docs/expectations/shop-orders.html                           what is judged of one asset
    docs/static/                                                 all that pages load

Held by ``tests/expectations/test_data_docs.py``; why so: ``docs/decisions/data-docs-offline.md``.
"""

from __future__ import annotations

import shutil
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from expectations.gx.context import alone, context_of
from expectations.gx.data_docs_offline import FILES, DataDocsError, take_offline
from expectations.gx.expectation import expect_invariant_holds

INDEXED = 200
"""Newest validations that the index lists."""
_IMAGES = ("favicon.ico", "logo-long.png")
_ROOTS = {"validations": "../../../../", "expectations": "../"}
"""From a page of the section to the site's root; no name in between has a dot, which would be a folder more."""


def docs_folder(folder: Path) -> Path:
    """Where the site of a context's folder lies."""
    return folder.resolve() / "docs"


def write_page(folder: Path, key: Any, result: Any, asset: str) -> Path:
    """Write the page of one validation; whoever calls this is `alone` in the folder.

    Parameters
    ----------
    key, result
        Great Expectations' identifier of the validation, and its result.
    asset
        Name of what was judged, as the page shows it.
    """
    from great_expectations.data_context.types.resource_identifiers import SiteSectionIdentifier

    site = _site(folder.resolve())
    # It knows the names of files and tables, and ours is neither.
    result.meta["batch_spec"] = {"data_asset_name": asset}
    section = site.site_section_builders["validations"]
    page = section.view_class.render(section.renderer_class.render(result), show_how_to_buttons=False)
    site.target_store.set(SiteSectionIdentifier("validations", key), page)
    *names, last = key.to_tuple()
    return docs_folder(folder).joinpath("validations", *names, f"{last}.html")


def write_index(folder: Path) -> Path:
    """Write the pages that lead to the others, and remove pages whose results are pruned."""
    with alone(folder):
        # Suites that are read while the class is unknown are read empty.
        expect_invariant_holds()
        site = _site(folder.resolve())
        site.site_section_builders["expectations"].build()
        _, links = site.site_index_builder.build()
    index = docs_folder(folder) / "index.html"
    # What fails while it is rendered is logged there, and an empty page written.
    if links is None or not index.exists() or not index.stat().st_size:
        raise DataDocsError(f"{index} could not be written; the log says why")
    return index


@cache
def _site(folder: Path) -> Any:
    """The builder of a folder's site, all whose templates are offline; what pages load is put there."""
    from great_expectations.render.renderer.site_builder import SiteBuilder

    context = context_of(folder)
    site = SiteBuilder(
        data_context=context,
        site_name="Rivermeet",
        show_how_to_buttons=False,
        store_backend={"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs_folder(folder))},
        site_index_builder={"class_name": "DefaultSiteIndexBuilder", "validation_results_limit": INDEXED},
        # Columns are not profiled here, and an empty section costs a listing of the store.
        site_section_builders={"profiling": "None"},
        runtime_environment={"root_directory": str(folder)},
    )
    for name, root in _ROOTS.items():
        take_offline(site.site_section_builders[name].view_class.env, root)
    take_offline(site.site_index_builder.view_class.env, "")
    _put_files(docs_folder(folder) / "static")
    return site


def _put_files(static: Path) -> None:
    shutil.copytree(FILES / "vendor", static / "vendor", dirs_exist_ok=True)
    (static / "images").mkdir(exist_ok=True)
    theirs = files("great_expectations").joinpath("render/view/static/images")
    for name in _IMAGES:
        with as_file(theirs.joinpath(name)) as image:
            shutil.copyfile(image, static / "images" / name)
