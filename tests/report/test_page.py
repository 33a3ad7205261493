"""The page says what the tables say, whatever their size, and shows nothing it should not."""

import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pipeline import report, store
from pipeline.report import page, wording
from pipeline.report._shown import MAX_FLIPS_SHOWN, flips
from tests.report.pages import SIMPLE, read
from tests.synthetic import Run, tables_of


def test_the_page_loads_nothing_and_links_only_to_the_tables_beside_it(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    for name, table in tables.items():
        store.Run(tmp_path).write_table(name, table)
    path = report.write(tmp_path, tables, SIMPLE)
    shown = read(path)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & {
        tag for tag, _ in shown.tags
    }
    assert not re.search(r"url\(|@import|@font-face", path.read_text(encoding="utf-8"))
    links = [a["href"] for a in shown.all("a")]
    assert links
    assert all((tmp_path / str(link)).is_file() for link in links)


def test_every_row_of_the_delta_table_is_on_the_page(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    text = read(report.write(tmp_path, tables, SIMPLE)).text
    for row in tables["deltas"].iter_rows(named=True):
        for name in ("worst", "best", "delta", "chance_delta", "chance_delta_95", "control"):
            assert wording.number(row[name]) in text
        assert row["worst_date"].isoformat() in text
    assert text.count("more than chance") >= 2


def test_the_first_screen_names_worst_best_delta_and_chance_for_each_model(
    tables: dict[str, pl.DataFrame],
) -> None:
    cards = {card.model: card for card in page.context(tables, SIMPLE)["headlines"]}
    assert list(cards) == ["one", "two"]
    row = tables["deltas"].filter(pl.col("model") == "two").row(0, named=True)
    for name in ("worst", "best", "delta", "chance_delta", "chance_delta_95"):
        assert wording.number(row[name]) in cards["two"].sentence
    assert cards["two"].kind == "more"
    assert cards["one"].kind == "within"
    assert "does not show" in cards["one"].conclusion


@pytest.mark.parametrize(
    ("share", "said"),
    [(None, "not measured"), (0.0, "the same outcomes"), (1.26, "flips 1.3% of outcomes")],
)
def test_a_card_says_what_is_known_of_the_engines_noise(
    tables: dict[str, pl.DataFrame], share: float | None, said: str
) -> None:
    changed = tables["deltas"].with_columns(placebo_flip_percent=pl.lit(share, pl.Float64))
    assert said in page.context(tables | {"deltas": changed}, SIMPLE)["headlines"][0].noise


def test_a_card_shows_a_delta_that_is_more_than_chance_before_a_larger_one_that_is_not(
    tables: dict[str, pl.DataFrame],
) -> None:
    of_model = tables["deltas"].filter(pl.col("model") == "one").sort("delta", descending=True)
    smallest = pl.col("metric") == of_model["metric"][-1]
    changed = of_model.with_columns(
        verdict=pl.when(smallest)
        .then(pl.lit("more than chance"))
        .otherwise(pl.lit("within chance"))
    )
    card = page.context(tables | {"deltas": changed}, SIMPLE)["headlines"][0]
    assert wording.number(of_model["delta"][-1]) in card.sentence
    assert card.tally.startswith("1 of its 3 deltas is")


@pytest.mark.parametrize("is_simulated", [True, False])
@pytest.mark.parametrize("narrowing", [{"items": "at most 10 of each task"}, {}])
def test_banners_stand_where_they_must_and_only_there(
    tmp_path: Path, tables: dict[str, pl.DataFrame], is_simulated: bool, narrowing: dict[str, str]
) -> None:
    provenance = report.Provenance(
        title="t", description="d", is_simulated=is_simulated, narrowing=narrowing
    )
    text = read(report.write(tmp_path, tables, provenance)).text
    assert ("no model was run" in text) == is_simulated
    assert ("Only part of the sweep ran" in text) == bool(narrowing)
    assert ("items: at most 10 of each task" in text) == bool(narrowing)


def test_values_are_shown_as_text_and_never_as_markup(tmp_path: Path) -> None:
    hostile = "<script>alert('x')</script>"
    tables = tables_of(Run(model=hostile, num_dates=4, num_items=20))
    tables["flips"] = tables["flips"].with_columns(
        answer_a=pl.lit(hostile), target=pl.lit("</td></table>")
    )
    provenance = report.Provenance(
        title=hostile,
        description=hostile,
        narrowing={hostile: hostile},
        sections={hostile: {hostile: hostile}},
    )
    shown = read(report.write(tmp_path, tables, provenance))
    assert not shown.all("script")
    assert hostile in shown.text
    assert "</td></table>" in shown.text


def test_a_chart_is_described_for_readers_who_do_not_see_it(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    drawn = [
        svg
        for svg in read(report.write(tmp_path, tables, SIMPLE)).all("svg")
        if svg.get("class") == "chart"
    ]
    assert len(drawn) == 3  # MMLU accuracy, BLEU, chrF
    assert all(svg["role"] == "img" for svg in drawn)
    row = tables["deltas"].filter(pl.col("model") == "two").row(0, named=True)
    spoken = " ".join(str(svg["aria-label"]) for svg in drawn)
    assert f"two: {wording.number(row['worst'])} to {wording.number(row['best'])}" in spoken


def test_scrolling_tables_can_be_reached_by_keyboard(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    shown = read(report.write(tmp_path, tables, SIMPLE))
    boxes = [div for div in shown.all("div") if div.get("class") == "scroll"]
    assert len(boxes) == len(shown.all("table"))
    assert all(div["tabindex"] == "0" and div["aria-labelledby"] for div in boxes)


def test_missing_answers_stand_beside_the_scores_where_there_are_any(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    gaps = tables_of(
        Run(task="gsm8k", num_dates=4, num_items=50, no_answer=0.2), Run(num_dates=4, num_items=50)
    )
    row = gaps["deltas"].filter(pl.col("task") == "gsm8k").row(0, named=True)
    context = page.context(gaps, SIMPLE)
    assert context["has_no_answer"]
    assert {cell["no_answer"].text for cell in context["deltas"]} == {
        wording.percent(row["no_answer_percent"]),
        "0.0%",
    }
    assert (
        f"max {wording.percent(row['no_answer_percent_max'])}"
        in read(report.write(tmp_path, gaps, SIMPLE)).text
    )
    assert not page.context(tables, SIMPLE)["has_no_answer"]


@pytest.mark.parametrize(
    "runs",
    [[Run(num_dates=1)], [Run(num_dates=3, num_items=4)], [Run(num_dates=2, varying=0)]],
    ids=["one date", "three", "no flips"],
)
def test_small_runs_make_a_page(tmp_path: Path, runs: list[Run]) -> None:
    assert "A sweep" in read(report.write(tmp_path, tables_of(*runs), SIMPLE)).text


def test_tables_without_rows_make_a_page(tmp_path: Path, tables: dict[str, pl.DataFrame]) -> None:
    shown = read(
        report.write(tmp_path, {name: frame.clear() for name, frame in tables.items()}, SIMPLE)
    )
    assert "No delta could be tested" in shown.text


def test_a_run_without_any_score_makes_a_page(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    empty = {
        name: pl.lit(None, pl.Float64).alias(name)
        for name in ("worst", "best", "delta", "mean", "p_value", "p_value_holm", "chance_delta_95")
    }
    broken = tables["deltas"].with_columns(
        **empty, verdict=pl.lit("no score"), num_dates=pl.lit(0, pl.Int64)
    )
    by_date = tables["by_date"].with_columns(
        score=pl.lit(None, pl.Float64),
        num_scored=pl.lit(0, pl.Int64),
        num_failed=pl.col("num_items"),
    )
    text = read(
        report.write(tmp_path, tables | {"deltas": broken, "by_date": by_date}, SIMPLE)
    ).text
    assert "nothing could be scored" in text
    assert "100.0%" in text  # failed


def test_answers_that_were_not_scored_are_reported_by_kind(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    is_one = (pl.col("model") == "one") & (pl.col("metric") == "accuracy")
    by_date = tables["by_date"].with_columns(
        num_scored=pl.when(is_one).then(pl.col("num_items") - 3).otherwise("num_scored"),
        num_no_answer=pl.when(is_one).then(2).otherwise("num_no_answer"),
        num_failed=pl.when(is_one).then(1).otherwise("num_failed"),
    )
    unread = page.context(tables | {"by_date": by_date}, SIMPLE)["unread"]
    assert [
        (row["model"], row["no_answer"].text, row["timeout"].text, row["failed"].text)
        for row in unread
    ] == [("one", "3.3%", "0.0%", "1.7%")]
    assert "Every answer could be read" in read(report.write(tmp_path, tables, SIMPLE)).text


def test_long_flip_tables_are_cut_and_say_so(tmp_path: Path) -> None:
    tables = tables_of(Run(num_items=200, varying=0.5), Run(model="n", num_items=200, varying=0.5))
    shown = flips(tables)
    assert shown.group_by("model").len()["len"].to_list() == [MAX_FLIPS_SHOWN // 2] * 2
    text = read(report.write(tmp_path, tables, SIMPLE)).text
    assert f"{MAX_FLIPS_SHOWN} of {tables['flips'].height} items that flip" in text
    assert "tables/flips.csv" in report.write(tmp_path, tables, SIMPLE).read_text()


def test_equal_tables_give_equal_pages(tmp_path: Path, tables: dict[str, pl.DataFrame]) -> None:
    first, second = (report.write(tmp_path / name, tables, SIMPLE).read_bytes() for name in "ab")
    assert first == second


def test_drawing_and_model_libraries_are_not_loaded_before_they_are_needed() -> None:
    program = (
        "import sys, pipeline.report, pipeline.report.terminal, pipeline.analyses;"
        "print([m for m in ('altair', 'vl_convert', 'jinja2', 'ray', 'vllm', 'torch', "
        "'transformers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
