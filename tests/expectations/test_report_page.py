"""The page in a browser without a network: what was planted is seen, and only that; text from data stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from rivermeet.expectations.invariant import moment_of
from rivermeet.expectations.invariants import ALL, invariants_of
from rivermeet.expectations.report.page import NodeHistory, PipelineHistory, page
from rivermeet.pipelines import Node, limits
from tests.browser import needs_chromium
from tests.expectations import nodes
from tests.expectations.recorded import NASTY, found, judged, line, node_history, of_source
from tests.offline_page import Page, offline_page

pytestmark = [pytest.mark.slow, needs_chromium]

NODES = [node for node in vars(nodes).values() if isinstance(node, Node)]
LOST = "record_shape"
SAMPLE = [{"problem": NASTY, "key": '{"id": 7}'}, {"problem": "differs", "extra": "1"}]
SQL = f"SELECT *\nFROM delta.`t` WHERE a < b -- {NASTY}"


def planted(node: Node) -> list[dict[str, Any]]:
    """Every invariant of a node is violated in an epoch of its own; the epoch after the last is lost for one."""
    rules = invariants_of(node)
    epochs = {e: found(node, rule.id, 9_000 + e, SAMPLE, SQL) for e, rule in enumerate(rules, 1)}
    return judged(node, epochs | {len(rules) + 1: found(node, LOST, None, error=f"Gone: {NASTY}")})


def measured(node: Node) -> list[dict[str, Any]]:
    """One epoch more than was judged."""
    epochs = range(1, len(invariants_of(node)) + 3)
    paired = node.join_spec is not None and node.join_spec.family == "stream-stream"
    other = {} if paired else {"one_sided": None, "tombstones": 7}
    return [of_source(e) if node.source else line(e, **other, staged=e > 1) for e in epochs]


ROWS = {f"shop.{node.name}": planted(node) for node in NODES}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "quality.html"
    histories = [node_history(node, ROWS[f"shop.{node.name}"], measured(node)) for node in NODES]
    path.write_text(page([PipelineHistory("shop", histories)], datetime.now(UTC), cells=100_000))
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    with offline_page() as one:
        yield one


@pytest.fixture
def shown(chromium: Page, file: Path) -> Page:
    chromium.open(file)
    return chromium


def number(text: str) -> float | None:
    return None if text == "unknown" else float(text.replace(",", ""))


def test_it_asks_for_nothing_and_says_nothing(shown: Page, file: Path) -> None:
    shown.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert [url for url in shown.requests() if not url.startswith("data:")] == [file.as_uri()]
    assert shown.run("return performance.getEntriesByType('resource').length") == 0
    assert shown.errors() == []
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", re.sub(r"<pre.*?</pre>", "", file.read_text()))


def test_every_number_is_the_tables(shown: Page) -> None:
    tables = shown.tables("checks")
    assert tables.keys() == ROWS.keys()
    for node, rows in tables.items():
        drawn = {
            (row["invariant"], int(row["epoch"])): (
                *(row["state"], number(row["violations"]), number(row["checked"])),
                *(number(row["seconds"]), row["severity"], row["stage"]),
            )
            for row in rows
        }
        recorded = {
            (row["invariant"], row["epoch"]): (
                *(row["state"], row["violations"], row["checked"]),
                *(round(row["seconds"], 3), row["severity"], row["stage"]),
            )
            for row in ROWS[node]
        }
        assert drawn == recorded
        assert len(rows) == len(recorded)


def bars(shown: Page, figures: str) -> list[tuple[str, str, dict[str, str]]]:
    """(node, caption, what its label says) of every bar in some figures."""
    found = shown.run(
        """return [...document.querySelectorAll(arguments[0])].flatMap((f) =>
          [...f.querySelectorAll("[aria-roledescription=bar]")].map((b) =>
            [f.closest(".node").id, f.querySelector("figcaption").textContent, b.getAttribute("aria-label")]))""",
        figures,
    )
    return [(node, caption, dict(part.split(": ") for part in label.split("; "))) for node, caption, label in found]


def test_every_bar_is_the_tables(shown: Page) -> None:
    drawn = {
        (node, invariant, int(bar["epoch"]), what): int(bar[what])
        for node, invariant, bar in bars(shown, ".multiples figure")
        for what in ("violations", "checked")
        if what in bar
    }
    recorded = {
        (node, row["invariant"], row["epoch"], what): row[what]
        for node, rows in ROWS.items()
        for row in rows
        for what in ("violations", "checked")
        if row[what]
    }
    assert drawn == recorded


def test_every_bar_of_the_flow_is_the_logs(shown: Page) -> None:
    drawn = {
        (node, int(bar["epoch"]), bar["kind"]): float(bar.get("records") or bar["seconds"])
        for node, caption, bar in bars(shown, ".charts figure")
        if caption in ("Flow", "Latency")
    }
    recorded: dict[tuple[str, int, str], float] = {}
    for node in NODES:
        checks = {}
        for row in ROWS[f"shop.{node.name}"]:
            if row["stage"] == "table":
                checks[row["epoch"]] = checks.get(row["epoch"], 0.0) + row["seconds"]
        for one in measured(node):
            alone, rows = one["one_sided"], one["rows"] - one["tombstones"]
            counts = (one["rows_in"] or {"files": one["files"]}) | one["seconds"]
            counts |= {"rows": rows} if alone is None else {"matched": rows - alone, "one-sided": alone}
            counts |= {"retracted": one["tombstones"], "late": one["late"], "dead": one.get("dead_letter", 0)}
            counts["checks"] = round(checks.get(one["epoch"], 0.0), 3)
            recorded |= {(f"shop.{node.name}", one["epoch"], kind): n for kind, n in counts.items() if n}
    assert drawn == recorded


def test_every_planted_violation_is_seen_and_nothing_else(shown: Page) -> None:
    cells = shown.run(
        """return [...document.querySelectorAll(".heat-map button")].map((b) =>
          [b.closest(".node").id, b.id, b.className.replace("cell ", ""), b.textContent])"""
    )
    seen = {(node, name.removeprefix(f"{node}.")): (look, text) for node, name, look, text in cells}
    signs = {"critical": "✕9k", "warning": "▲9k", "info": "◆9k"}
    for node in NODES:
        rules, at = invariants_of(node), f"shop.{node.name}"
        bad = {name: what for (where, name), what in seen.items() if where == at and what != ("passed", "✓")}
        wanted = {f"{r.id}.{e}": (r.severity, signs[r.severity]) for e, r in enumerate(rules, 1)}
        assert bad == wanted | {f"{LOST}.{len(rules) + 1}": ("not-evaluated", "?")}
        assert len([name for where, name in seen if where == at]) == len(rules) * (len(rules) + 1)
    assert {rule.id for node in NODES for rule in invariants_of(node)} >= {rule.id for rule in ALL}


def test_the_summary_counts_the_newest_epoch_and_of_tables_their_last_fold(shown: Page) -> None:
    (rows,) = shown.tables("overview").values()
    holding = 0
    for node, row in zip(NODES, rows, strict=True):
        rules = invariants_of(node)
        folds = [rule.id for rule in rules if moment_of(rule, node) == "fold" and rule.id != LOST]
        holding += len(folds)
        assert (row["node"], row["invariants hold"]) == (node.name, f"{len(folds)} of {len(rules)}")
        assert (row["epoch"], row["worst"]) == (str(len(rules) + 2), "not judged")
        replay = f"passed at epoch {len(rules) + 1}"
        assert row["replay = table"] == (replay if node.is_table else "no table")
    everything = sum(len(invariants_of(node)) for node in NODES)
    assert shown.run("return document.querySelector('.verdict strong').textContent") == f"{holding} of {everything}"


def test_flow_and_latency_tables_are_the_logs(shown: Page) -> None:
    flow, latency = shown.tables("flow"), shown.tables("latency")
    for node in NODES:
        lines = measured(node)
        for row, one in zip(flow[f"shop.{node.name}"], lines, strict=True):
            alone = one["one_sided"]
            wanted = {"epoch": one["epoch"], "rows": one["rows"], "retracted": one["tombstones"], "one-sided": alone}
            wanted |= {f"in, {side}": n for side, n in (one["rows_in"] or {"files": one["files"]}).items()}
            wanted |= {"late": one["late"], "dead": one.get("dead_letter")}
            wanted |= {"matched": None if alone is None else one["rows"] - one["tombstones"] - alone}
            assert row == {name: "not recorded" if n is None else f"{n:,}" for name, n in wanted.items()}
        for row, one in zip(latency[f"shop.{node.name}"], lines, strict=True):
            assert [number(row[f"{p}, s"]) for p in one["seconds"]] == list(one["seconds"].values())


def drawer(shown: Page) -> dict[str, Any] | None:
    return shown.run(
        """const d = document.getElementById("drawer"); if (!d.open) return null;
        const text = (s) => d.querySelector(s).textContent, table = d.querySelector("#drawer-sample table");
        return {title: text("#drawer-title"), where: text("#drawer-where"), state: text("#drawer-state"),
          sentence: text("#drawer-sentence"), source: text("#drawer-source"), sql: text("#drawer-sql pre"),
          error: d.querySelector("#drawer-error").checkVisibility() ? text("#drawer-error pre") : null,
          facts: text("#drawer-facts"), rows: [...table.rows].map((r) => [...r.cells].map((c) => c.textContent))}"""
    )


def focused(shown: Page) -> str:
    return shown.run("return document.activeElement.id")


def test_epochs_that_were_not_staged_are_counted(shown: Page) -> None:
    said = shown.run(
        "return [...document.querySelectorAll('.node')].map((n) => [n.id, n.querySelector('.appended')?.textContent])"
    )
    sentence = "Of these epochs 1 could not be staged and went through Spark."
    assert dict(said) == {f"shop.{node.name}": None if node.source else sentence for node in NODES}


@pytest.mark.parametrize("key", [Keys.ENTER, pytest.param(Keys.SPACE, marks=pytest.mark.prove)], ids=["enter", "space"])
def test_by_keyboard_a_cell_opens_with_its_rows_and_sql(shown: Page, key: str) -> None:
    rules = invariants_of(nodes.seen)
    shown.run("document.querySelector('[id=\"shop.seen\"] summary').focus()")
    for _ in range(3):
        shown.press(Keys.TAB)
        if focused(shown).startswith("shop.seen."):
            break
    # The stop is the first cell that needs a look.
    assert focused(shown) == f"shop.seen.{rules[0].id}.1"
    outline = "const s = getComputedStyle(document.activeElement); return [s.outlineStyle, parseFloat(s.outlineWidth)]"
    style, width = shown.run(outline)
    assert (style, width >= 2) == ("solid", True)
    shown.press(Keys.ARROW_DOWN, Keys.ARROW_LEFT)
    assert focused(shown) == f"shop.seen.{rules[1].id}.2"
    assert drawer(shown) is None
    shown.press(key)
    opened = drawer(shown)
    assert opened is not None
    assert (opened["title"], opened["where"], opened["state"]) == (rules[1].id, "shop.seen, epoch 2", "violated")
    assert (opened["sentence"], opened["source"]) == (rules[1].sentence, rules[1].source)
    assert (opened["sql"], opened["error"]) == (SQL, None)
    assert opened["rows"] == [["problem", "key", "extra"], [NASTY, '{"id": 7}', ""], ["differs", "", "1"]]
    assert "9,002" in opened["facts"] and "12,345" in opened["facts"]
    shown.press(Keys.ESCAPE)
    assert (drawer(shown), focused(shown)) == (None, f"shop.seen.{rules[1].id}.2")
    assert shown.errors() == []


def test_a_click_opens_what_was_not_evaluated_with_the_reason(shown: Page) -> None:
    cell = f"shop.seen.{LOST}.{len(invariants_of(nodes.seen)) + 1}"
    shown.run("document.getElementById(arguments[0]).click()", cell)
    opened = drawer(shown)
    assert opened is not None
    assert (opened["state"], opened["error"]) == ("not evaluated", f"Gone: {NASTY}")
    assert not shown.run("return document.getElementById('drawer-sample').checkVisibility()")


def test_pointing_at_a_bar_tells_its_numbers(shown: Page) -> None:
    pointed = """const bar = document.querySelector(arguments[0]), tip = document.getElementById("tip");
      bar.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
      return [tip.checkVisibility(), tip.textContent]"""
    at = "[id='shop.seen'] .charts figure [aria-roledescription=bar]"
    assert shown.run(pointed, at) == [True, "epoch: 1; records: 1000; kind: left"]


def test_a_link_to_a_cell_opens_it(chromium: Page, file: Path) -> None:
    chromium.open(file, anchor="#shop.seen.late_share.1")
    opened = drawer(chromium)
    assert opened is not None and (opened["title"], opened["state"]) == ("late_share", "passed")


def test_the_sql_is_copied_or_selected(shown: Page) -> None:
    last = max(row["epoch"] for row in ROWS["shop.seen"])
    shown.run("document.getElementById(arguments[0]).click()", f"shop.seen.late_share.{last}")
    shown.run("document.querySelector('.copy').click()")
    copied = "return new Promise((r) => setTimeout(() => r(document.querySelector('.copy').textContent), 200))"
    said, selected = shown.run(copied), shown.run("return getSelection().toString()")
    sql = next(row["sql"] for row in ROWS["shop.seen"] if row["invariant"] == "late_share" and row["epoch"] == last)
    assert said == "Copied" or (said.startswith("Selected") and selected.strip() == sql)


def test_text_from_data_stays_text(shown: Page) -> None:
    for cell in ("document.querySelector('button.critical')", "document.querySelector('button.not-evaluated')"):
        shown.run(f"{cell}.click()")
        shown.run("document.getElementById('drawer').close()")
    assert shown.run("return document.querySelectorAll('img, b').length") == 0
    assert shown.run("return document.title") == "Quality: shop"
    assert shown.run("return document.querySelectorAll('script').length") == 2
    about = shown.run("return document.querySelector('.node p').textContent.replace(/\\s+/g, ' ')")
    assert " ".join(NASTY.split()) in about and "49" not in about


@pytest.mark.prove
def test_a_script_that_came_in_would_not_run(shown: Page) -> None:
    """The policy is a second door behind the escaping."""
    shown.run("document.body.insertAdjacentHTML('beforeend', arguments[0])", "<img src=x onerror='document.title = 1'>")
    shown.run("return new Promise((r) => setTimeout(r, 200))")
    assert shown.run("return document.title") == "Quality: shop"
    assert any("Content Security Policy" in said for said in shown.errors())


def test_what_was_not_evaluated_is_hatched_and_not_green(shown: Page) -> None:
    look = """const s = getComputedStyle(document.querySelector(arguments[0]));
      return [s.backgroundImage, s.backgroundColor]"""
    hatch, colour = shown.run(look, ".heat-map .not-evaluated")
    plain, green = shown.run(look, ".heat-map .passed")
    assert "repeating-linear-gradient" in hatch and plain == "none"
    assert colour == "rgba(0, 0, 0, 0)" != green
    # A committed epoch that nobody judged holds nothing, not even a colour.
    assert shown.run(look, ".heat-map .not-judged") == ["none", "rgba(0, 0, 0, 0)"]


@pytest.mark.parametrize("width", [400, pytest.param(1600, marks=pytest.mark.prove)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_follows_the_readers_scheme(chromium: Page, file: Path, width: int, scheme: Any) -> None:
    chromium.open(file, width, scheme)
    chromium.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    wide = "const d = document.documentElement; return [innerWidth, d.scrollWidth - d.clientWidth]"
    assert chromium.run(wide) == [width, 0]
    chromium.run("document.querySelector('button.critical').click()")
    assert chromium.run("const d = document.getElementById('drawer'); return d.scrollWidth <= d.clientWidth")
    paper = chromium.run("return getComputedStyle(document.body).backgroundColor")
    channels = [int(n) for n in re.findall(r"\d+", paper)[:3]]
    assert max(channels) < 60 if scheme == "dark" else min(channels) > 240
    bar = chromium.run("return getComputedStyle(document.querySelector('.chart [aria-roledescription=bar]')).fill")
    assert bar.startswith("rgb(") and bar != "rgb(0, 0, 0)"


def history_of(node: Node, wrong: dict[int, dict[str, Any]], epochs: int) -> NodeHistory:
    """A node's history that is committed and judged, with what was wrong by epoch, and long queries."""
    rows = judged(node, {epoch: wrong.get(epoch, {}) for epoch in range(1, epochs + 1)})
    rows = [row | {"sql": f"SELECT {'x' * 1500}"} for row in rows]
    lines = [of_source(e) if node.source else line(e) for e in range(1, epochs + 1)]
    return node_history(node, rows, lines)


def wrong_of(chromium: Page, path: Path, histories: list[NodeHistory]) -> list[list[str]]:
    path.write_text(page([PipelineHistory("shop", histories)], datetime.now(UTC)))
    chromium.open(path)
    (rows,) = chromium.tables("wrong").values() or [[]]
    return [[" ".join(row[name].split()) for name in ("what", "where", "found", "since")] for row in rows]


def test_what_is_wrong_comes_first_with_where_and_since_when(chromium: Page, tmp_path: Path) -> None:
    twice, lost = found(nodes.seen, "pair_in_window", 2, SAMPLE), found(nodes.orders, LOST, None, error="Gone")
    late = found(nodes.seen, "late_share", 9_999)
    histories = [
        history_of(nodes.clicks, {2: found(nodes.clicks, LOST, 1)}, 5),
        history_of(nodes.orders, {5: lost}, 5),
        history_of(nodes.seen, {1: twice, 3: twice, 4: twice | late, 5: twice | late}, 5),
    ]
    judged_at = "2026-11-18 11:06 UTC"
    assert wrong_of(chromium, tmp_path / "quality.html", histories) == [
        ["not evaluated", f"shop.orders {LOST}", "could not be evaluated", f"epoch 5, {judged_at}"],
        ["critical", "shop.seen pair_in_window", "2 of 12,345", f"epoch 3, {judged_at}"],
        ["warning", "shop.seen late_share", "9,999 of 12,345", f"epoch 4, {judged_at}"],
    ]
    said = chromium.run("return document.querySelector('.wrong p').textContent")
    everything = sum(len(invariants_of(one.node)) for one in histories)
    assert said == f"3 of {everything} invariants do not hold"
    # What is wrong leads to its rows.
    chromium.run("document.querySelectorAll('.wrong td a.name')[1].click()")
    chromium.run("return new Promise((done) => setTimeout(done, 200))")
    opened = drawer(chromium)
    assert opened is not None and (opened["title"], opened["where"]) == ("pair_in_window", "shop.seen, epoch 5")


def test_where_nothing_is_wrong_it_says_so_and_draws_no_violations(chromium: Page, tmp_path: Path) -> None:
    assert wrong_of(chromium, tmp_path / "quality.html", [history_of(nodes.seen, {}, 3)]) == []
    said = chromium.run("return document.querySelector('.wrong').textContent.trim()")
    assert said == f"Nothing is wrong: all {len(invariants_of(nodes.seen))} invariants hold."
    assert chromium.run("return document.querySelectorAll('.multiples figure').length") == 0


def test_only_what_did_not_always_hold_has_a_chart(chromium: Page, tmp_path: Path) -> None:
    wrong_of(
        chromium, tmp_path / "quality.html", [history_of(nodes.seen, {2: found(nodes.seen, "late_share", 9_999)}, 3)]
    )
    captions = chromium.run("return [...document.querySelectorAll('.multiples figcaption')].map((c) => c.textContent)")
    assert captions == ["late_share"]


@pytest.mark.prove
def test_five_hundred_epochs_of_fifty_nodes_are_readable(chromium: Page, tmp_path: Path) -> None:
    several = (NODES * 2)[:50]
    path = tmp_path / "quality.html"
    histories = [history_of(node, {}, 500) for node in several]
    broken = found(nodes.seen, "pair_in_window", 7, SAMPLE, SQL)
    histories[0] = history_of(nodes.seen, {120: broken} | dict.fromkeys(range(461, 501), broken), 500)
    assert wrong_of(chromium, path, histories) == [
        ["critical", "shop.seen pair_in_window", "7 of 12,345", "epoch 461, 2026-11-18 11:06 UTC"]
    ]
    assert path.stat().st_size < 6_000_000
    heads, cells = chromium.run(
        """const map = document.querySelector(".heat-map");
        const of = [...map.querySelectorAll("tr")].find((r) => r.textContent.includes("pair_in_window"));
        return [[...map.tHead.rows[0].cells].slice(1).map((c) => c.textContent),
                [...of.cells].slice(1).map((c) => c.textContent.trim())]"""
    )
    detailed = limits.DETAILED_CELLS // sum(len(one.checks.rows) for one in histories)
    groups = [(max(1, last - 49), last) for last in range(500 - detailed, 0, -50)]
    assert heads == [*map(str, range(500, 500 - detailed, -1)), *(f"{first}\u2013{last}" for first, last in groups)]
    assert cells == ["✕7"] * detailed + [f"✕{7 * (40 - detailed)}"] + ["✓"] * 6 + ["✕7", "✓", "✓"]
    assert chromium.run("return [...document.querySelectorAll('details.body')].filter((d) => d.open).length") == 1
    assert chromium.run("const d = document.documentElement; return d.scrollWidth <= d.clientWidth")


def test_an_empty_report_says_so(chromium: Page, tmp_path: Path) -> None:
    path = tmp_path / "quality.html"
    path.write_text(page([], datetime.now(UTC)))
    chromium.open(path)
    assert "No pipeline is declared." in chromium.run("return document.body.textContent")
    assert chromium.errors() == []


def test_an_epoch_that_was_refused_is_struck_out(chromium: Page, tmp_path: Path) -> None:
    rows = judged(nodes.seen, {1: {}, 2: found(nodes.seen, "pair_in_window", 1)})
    history = replace(node_history(nodes.seen, rows, [line(1)]), committed=1)
    path = tmp_path / "quality.html"
    path.write_text(page([PipelineHistory("shop", [history])], datetime.now(UTC)))
    chromium.open(path)
    assert chromium.run("return [...document.querySelectorAll('th.refused')].map((h) => h.textContent)") == ["2"]
    (row,) = chromium.tables("overview")[""]
    assert (row["epoch"], row["worst"]) == ("1", "critical")
