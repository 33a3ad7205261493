"""The report is one file that says what the tables say, whatever their size, and shows nothing it
should not.
"""

import html.parser
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from pipeline import analyses, report, store
from pipeline.core import conditions, registry
from pipeline.report import charts, page, terminal, wording
from tests.synthetic import Run, conditions_of, evidence_of

VOID = {"meta", "br", "link", "img", "input", "hr"}
SIMPLE = report.Provenance(
    title="A sweep", description="What it asks.", sections={"Engine": {"vllm": "1.2.3"}}
)


def tables_of(*runs: Run) -> dict[str, pl.DataFrame]:
    found = evidence_of(*runs)
    return {name: analyses.get(name).table(found) for name in registry.names("analyses")}


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    small = {"num_items": 60, "num_dates": 8, "placebo_every": 4}
    return tables_of(
        Run(model="one", **small),
        Run(model="two", effect=0.9, **small),
        Run(model="one", task="wmt16_en_de", metrics=("bleu", "chrf"), **small),
    )


class Page(html.parser.HTMLParser):
    """Tags, attributes and text of a page; raises where tags do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self._open, self._skipped = "", [], {"style"}
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._skipped & set(self._open):
            self.text += f" {data}"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def test_the_page_loads_nothing_and_links_only_to_the_tables_beside_it(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    for name, table in tables.items():
        store.Run(tmp_path).write_table(name, table)
    path = report.write(tmp_path, tables, SIMPLE)
    found = read(path)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & {
        tag for tag, _ in found.tags
    }
    assert not re.search(r"url\(|@import|@font-face", path.read_text(encoding="utf-8"))
    links = [a["href"] for a in found.all("a")]
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
    cards = {card["model"]: card for card in page._context(tables, SIMPLE)["headlines"]}
    assert list(cards) == ["one", "two"]
    row = tables["deltas"].filter(pl.col("model") == "two").row(0, named=True)
    for name in ("worst", "best", "delta", "chance_delta", "chance_delta_95"):
        assert wording.number(row[name]) in cards["two"]["sentence"]
    assert cards["two"]["kind"] == "more"
    assert cards["one"]["kind"] == "within"
    assert "does not show" in cards["one"]["conclusion"]


@pytest.mark.parametrize(
    ("share", "said"),
    [(None, "not measured"), (0.0, "the same outcomes"), (1.26, "flips 1.3% of outcomes")],
)
def test_a_card_says_what_is_known_of_the_engines_noise(
    tables: dict[str, pl.DataFrame], share: float | None, said: str
) -> None:
    changed = tables["deltas"].with_columns(placebo_flip_percent=pl.lit(share, pl.Float64))
    assert said in page._context(tables | {"deltas": changed}, SIMPLE)["headlines"][0]["noise"]


def test_a_card_shows_a_delta_that_is_more_than_chance_before_a_larger_one_that_is_not(
    tables: dict[str, pl.DataFrame],
) -> None:
    mine = tables["deltas"].filter(pl.col("model") == "one").sort("delta", descending=True)
    smallest = pl.col("metric") == mine["metric"][-1]
    changed = mine.with_columns(
        verdict=pl.when(smallest)
        .then(pl.lit("more than chance"))
        .otherwise(pl.lit("within chance"))
    )
    card = page._context(tables | {"deltas": changed}, SIMPLE)["headlines"][0]
    assert wording.number(mine["delta"][-1]) in card["sentence"]
    assert card["tally"].startswith("1 of its 3 deltas is")


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
    found = read(report.write(tmp_path, tables, provenance))
    assert not found.all("script")
    assert hostile in found.text
    assert "</td></table>" in found.text


def test_a_chart_is_described_for_readers_who_do_not_see_it(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    found = [
        svg
        for svg in read(report.write(tmp_path, tables, SIMPLE)).all("svg")
        if svg.get("class") == "chart"
    ]
    assert len(found) == 3  # MMLU accuracy, BLEU, chrF
    assert all(svg["role"] == "img" for svg in found)
    row = tables["deltas"].filter(pl.col("model") == "two").row(0, named=True)
    spoken = " ".join(str(svg["aria-label"]) for svg in found)
    assert f"two: {wording.number(row['worst'])} to {wording.number(row['best'])}" in spoken


def test_scrolling_tables_can_be_reached_by_keyboard(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    found = read(report.write(tmp_path, tables, SIMPLE))
    boxes = [div for div in found.all("div") if div.get("class") == "scroll"]
    assert len(boxes) == len(found.all("table"))
    assert all(div["tabindex"] == "0" and div["aria-labelledby"] for div in boxes)


# Conditions beside the date.


@pytest.fixture(scope="module")
def placements() -> dict[str, pl.DataFrame]:
    """Tables of one model and task, with the date in two places."""
    return tables_of(
        Run(num_items=40, num_dates=6, placebo_every=3),
        Run(num_items=40, num_dates=6, placement="user_end", control=False, seed=1),
    )


@pytest.fixture(scope="module")
def wordings() -> dict[str, pl.DataFrame]:
    """Tables of a sweep without dates under the six wordings, each asked twice."""
    runs = [
        Run(
            num_items=40,
            num_dates=0,
            wording=name,
            seed=i,
            placebo_every=1,
            noise=0.3,
            metrics=("accuracy", "ece"),
        )
        for i, name in enumerate(conditions.WORDINGS)
    ]
    return tables_of(*runs)


def test_each_condition_has_its_own_delta_and_chart(
    tmp_path: Path, placements: dict[str, pl.DataFrame]
) -> None:
    found = read(report.write(tmp_path, placements, SIMPLE))
    assert len([svg for svg in found.all("svg") if svg.get("class") == "chart"]) == 2
    shown = page._context(placements, SIMPLE)
    assert [row["task"].text for row in shown["deltas"]] == [
        "MMLU accuracy, placement system start",
        "MMLU accuracy, placement user end",
    ]
    assert shown["lead"].startswith("1 model, 1 task, 6 dates under 2 conditions.")


def test_the_page_compares_conditions_where_something_beside_the_date_varies(
    tmp_path: Path, placements: dict[str, pl.DataFrame], tables: dict[str, pl.DataFrame]
) -> None:
    text = read(report.write(tmp_path, placements, SIMPLE)).text
    assert "Conditions beside the date" in text
    for row in placements["conditions"].iter_rows(named=True):
        assert f"{row['cv_percent']:.2f}%" in text
        assert wording.number(row["mean"]) in text
    assert "Conditions beside the date" not in read(report.write(tmp_path, tables, SIMPLE)).text


def test_a_chart_has_the_control_of_its_own_condition() -> None:
    runs = [
        Run(num_items=40, num_dates=6, wording=name, seed=i)
        for i, name in enumerate(("none", "helpful"))
    ]
    by_date = tables_of(*runs)["by_date"]
    keys = page._panel_keys(by_date)
    names, colours = wording.Names(by_date), {"m": "#1f5fb4"}
    for key in keys:
        svg = page._panel(by_date, key, names, colours)["svg"]
        (control,) = by_date.filter(pl.col("date").is_null(), pl.col("wording") == key["wording"])[
            "score"
        ]
        drawn = re.findall(
            r'aria-label="[^"]*score: ([0-9.]+)[^"]*" role="graphics-symbol" aria-roledescription="rule mark"',
            svg,
        )
        assert [float(score) for score in drawn] == [pytest.approx(control)]


def test_a_sweep_without_dates_shows_its_conditions_scores(
    tmp_path: Path, wordings: dict[str, pl.DataFrame]
) -> None:
    found = read(report.write(tmp_path, wordings, SIMPLE))
    assert (
        "1 model, 1 task, no dates: every item was asked without a date, under 6 conditions."
        in found.text
    )
    assert "Worst and best date" not in found.text
    assert not [svg for svg in found.all("svg") if svg.get("class") == "chart"]
    for row in wordings["by_date"].filter(pl.col("replicate") == 0).iter_rows(named=True):
        assert wording.number(row["score"]) in found.text
        assert wording.axis_value("wording", row["wording"]) in found.text


def test_a_sweep_without_dates_opens_with_its_largest_delta_and_the_noise(
    wordings: dict[str, pl.DataFrame],
) -> None:
    (card,) = page._context(wordings, SIMPLE)["headlines"]
    row = wordings["conditions"].filter(pl.col("delta") == pl.col("delta").max()).row(0, named=True)
    for name in ("worst", "best", "delta", "chance_delta_95"):
        assert wording.number(row[name]) in card["sentence"]
    assert "6 values of the system wording" in card["sentence"]
    assert "The same prompt asked again flips" in card["noise"]


@pytest.mark.parametrize("metrics", [("accuracy",), ("accuracy", "ece")])
def test_a_sweep_without_dates_or_conditions_makes_a_page_with_its_scores(
    tmp_path: Path, metrics: tuple[str, ...]
) -> None:
    tables = tables_of(
        Run(num_dates=0, metrics=metrics), Run(model="n", num_dates=0, metrics=metrics)
    )
    found = read(report.write(tmp_path, tables, SIMPLE))
    assert "2 models, 1 task, no dates: every item was asked without a date." in found.text
    assert all(wording.number(score) in found.text for score in tables["by_date"]["score"])


def test_many_charts_are_cut_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placements: dict[str, pl.DataFrame]
) -> None:
    monkeypatch.setattr(page, "MAX_PANELS", 1)
    found = read(report.write(tmp_path, placements, SIMPLE))
    assert len([svg for svg in found.all("svg") if svg.get("class") == "chart"]) == 1
    assert "The first 1 of 2 charts" in found.text


def test_missing_answers_stand_beside_the_scores_where_there_are_any(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    gaps = tables_of(
        Run(task="gsm8k", num_dates=4, num_items=50, no_answer=0.2), Run(num_dates=4, num_items=50)
    )
    row = gaps["deltas"].filter(pl.col("task") == "gsm8k").row(0, named=True)
    context = page._context(gaps, SIMPLE)
    assert context["has_no_answer"]
    assert {cell["no_answer"].text for cell in context["deltas"]} == {
        wording.percent(row["no_answer_percent"]),
        "0.0%",
    }
    assert (
        f"max {wording.percent(row['no_answer_percent_max'])}"
        in read(report.write(tmp_path, gaps, SIMPLE)).text
    )
    assert not page._context(tables, SIMPLE)["has_no_answer"]


def chart_of(frame: pl.DataFrame) -> str:
    labels = {label: charts.COLOURS[i] for i, label in enumerate(sorted(set(frame["model"])))}
    return charts.score_chart(
        frame.with_columns(label=pl.col("model")), labels, "accuracy", "a chart"
    )


def line_of(svg: str) -> str:
    """Path of the first line."""
    found = re.search(
        r'aria-roledescription="line mark"[^>]* d="([^"]*)"|<path[^>]*aria-roledescription="line mark"[^>]*',
        svg,
    )
    assert found
    path = re.search(r' d="([^"]*)"', found.group(0))
    assert path
    return path.group(1)


def test_a_score_that_is_missing_is_a_gap_in_the_line() -> None:
    by_date = tables_of(Run(num_dates=9))["by_date"]
    gap = (pl.col("date").dt.day() == 5) & (pl.col("replicate") == 0)
    broken = by_date.with_columns(score=pl.when(~gap.fill_null(False)).then(pl.col("score")))
    assert line_of(chart_of(by_date)).count("M") == 1
    assert line_of(chart_of(broken)).count("M") == 2


def test_charts_are_the_same_in_every_time_zone(tmp_path: Path) -> None:
    tables_of(Run(num_dates=3))["by_date"].write_parquet(tmp_path / "by_date.parquet")
    program = (
        "import sys, polars as pl; from pipeline.report import charts;"
        "frame = pl.read_parquet(sys.argv[1]).with_columns(label=pl.col('model'));"
        "print(charts.score_chart(frame, {'m': '#1f5fb4'}, 'accuracy', 'a chart'))"
    )
    drawn = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "by_date.parquet")],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for zone in ("America/Los_Angeles", "Pacific/Auckland")
    ]
    assert drawn[0] == drawn[1]
    assert ">1 Jan<" in drawn[0]
    assert ">31 Dec<" not in drawn[0]


def test_several_models_over_many_dates_get_a_strip_each() -> None:
    runs = [
        Run(model=f"model-{i}", num_items=4, num_dates=charts.MAX_MARKED_DATES + 1)
        for i in range(9)
    ]
    svg = chart_of(tables_of(*runs)["by_date"])
    assert svg.count('aria-roledescription="line mark"') >= 9
    assert all(f">model-{i}<" in svg for i in range(9))


@pytest.mark.parametrize(
    "runs",
    [[Run(num_dates=1)], [Run(num_dates=3, num_items=4)], [Run(num_dates=2, varying=0)]],
    ids=["one date", "three", "no flips"],
)
def test_small_runs_make_a_page(tmp_path: Path, runs: list[Run]) -> None:
    assert "A sweep" in read(report.write(tmp_path, tables_of(*runs), SIMPLE)).text


def test_tables_without_rows_make_a_page(tmp_path: Path, tables: dict[str, pl.DataFrame]) -> None:
    found = read(
        report.write(tmp_path, {name: frame.clear() for name, frame in tables.items()}, SIMPLE)
    )
    assert "No delta could be tested" in found.text


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
    unread = page._context(tables | {"by_date": by_date}, SIMPLE)["unread"]
    assert [
        (row["model"], row["no_answer"].text, row["timeout"].text, row["failed"].text)
        for row in unread
    ] == [("one", "3.3%", "0.0%", "1.7%")]
    assert "Every answer could be read" in read(report.write(tmp_path, tables, SIMPLE)).text


def test_long_flip_tables_are_cut_and_say_so(tmp_path: Path) -> None:
    tables = tables_of(Run(num_items=200, varying=0.5), Run(model="n", num_items=200, varying=0.5))
    shown = page._shown_flips(tables)
    assert shown.group_by("model").len()["len"].to_list() == [page.MAX_FLIPS_SHOWN // 2] * 2
    text = read(report.write(tmp_path, tables, SIMPLE)).text
    assert f"{page.MAX_FLIPS_SHOWN} of {tables['flips'].height} items that flip" in text
    assert "tables/flips.csv" in report.write(tmp_path, tables, SIMPLE).read_text()


def test_equal_tables_give_equal_pages(tmp_path: Path, tables: dict[str, pl.DataFrame]) -> None:
    first, second = (report.write(tmp_path / name, tables, SIMPLE).read_bytes() for name in "ab")
    assert first == second


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", "(no answer)"), (None, wording.DASH), ("a\n b", "a b"), ("x" * 99, "x" * 79 + "…")],
)
def test_long_and_empty_answers_are_shown_in_one_line(text: str | None, shown: str) -> None:
    assert wording.clipped(text) == shown


def test_names_say_no_more_than_telling_rows_apart_needs() -> None:
    series = {
        "model": "m",
        "engine": "bf16",
        "task": "mmlu",
        "style": "five_shot",
        "metric": "accuracy",
    }
    row = series | conditions_of()
    plain = wording.Names(pl.DataFrame([row]))
    assert (plain.model(row), plain.series(row), plain.short(row)) == ("m", "MMLU accuracy", "mmlu")
    other = (
        series
        | {"engine": "fp32"}
        | conditions_of(date_format="slashes", placement="user_end", option_order=3)
    )
    metric, style = row | {"metric": "ece"}, row | {"style": "cot"}
    several = wording.Names(pl.DataFrame([row, other, metric, style]))
    assert several.model(row) == "m (bf16)"
    assert several.series(row) == "MMLU accuracy, five shot, iso, placement system start, order 0"
    assert several.short(other) == "mmlu accuracy, five shot, slashes, placement user end, order 3"
    assert several.scored(other) == "MMLU accuracy, five shot"


def test_a_control_does_not_count_as_another_condition() -> None:
    series = {
        "model": "m",
        "engine": "e",
        "task": "mmlu",
        "style": "zero_shot",
        "metric": "accuracy",
    }
    control = series | conditions_of(condition="control", date_format="", placement="")
    dated = series | conditions_of()
    assert wording.Names(pl.DataFrame([control, dated])).series(dated) == "MMLU accuracy"


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("control", "no date"),
        ("control;wording=best_ability", "no date, wording best ability"),
        ("iso;order=3", "iso, order 3"),
        ("dated;placement=user_end", "with a date, placement user end"),
    ],
)
def test_what_is_held_fixed_is_said_in_words(condition: str, shown: str) -> None:
    assert wording.held(condition) == shown


def test_a_task_of_another_version_is_shown_by_its_name() -> None:
    assert wording.task_title("never_heard_of") == "never_heard_of"
    assert wording.metric_title("never_heard_of") == "never_heard_of"


def printed(tables: dict[str, pl.DataFrame]) -> str:
    """The terminal's table in 80 columns."""
    console = Console(width=80, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - rich keeps it open
    console.print(terminal.delta_table(tables))
    text = console.export_text()
    assert max(len(line) for line in text.splitlines()) <= 80
    return text


def test_the_terminal_table_fits_80_columns_and_has_every_row(
    tables: dict[str, pl.DataFrame],
) -> None:
    text = printed(tables)
    for row in tables["deltas"].iter_rows(named=True):
        assert f"{row['delta']:.2f}" in text
    assert "more than" in text
    assert "no ans." not in text


def test_the_terminal_says_how_many_answers_are_missing() -> None:
    gaps = tables_of(
        Run(model="a-model-of-some-size", task="gsm8k", num_dates=4, no_answer=0.2),
        Run(num_dates=4),
    )
    lost = gaps["deltas"].with_columns(timeout_percent=1.26, failed_percent=0.0)
    text = printed(gaps | {"deltas": lost})
    assert wording.percent(gaps["deltas"]["no_answer_percent"].max()) in text
    assert "up to 1.3% of answers ran too long" in text
    assert "could not be scored" not in text


def test_the_terminal_shows_conditions_of_a_sweep_without_dates(
    wordings: dict[str, pl.DataFrame],
) -> None:
    text = printed(wordings)
    for row in wordings["conditions"].iter_rows(named=True):
        assert f"{row['cv_percent']:.2f}%" in text
        assert f"{row['delta']:.2f}" in text


def test_the_terminal_shows_scores_where_nothing_was_varied() -> None:
    tables = tables_of(Run(num_dates=0), Run(task="gsm8k", num_dates=0, no_answer=0.5))
    text = printed(tables)
    assert all(f"{score:.2f}" in text for score in tables["by_date"]["score"])


def test_the_terminal_shows_brackets_in_names() -> None:
    assert "m[red]" in printed(tables_of(Run(model="m[red]", num_dates=2)))


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


def test_an_axis_of_scores_says_their_scale() -> None:
    assert wording.score_axis("accuracy") == "accuracy, 0–100"
    assert wording.score_axis("brier") == "Brier, 0–200"
    assert wording.score_axis("log_loss") == "log loss, nats"
    assert wording.score_axis("of another version") == "of another version"
