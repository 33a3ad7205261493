"""Completions, scores, variants and items of made-up runs, for tests of what follows scoring."""

import dataclasses
import datetime
from typing import Any

import numpy as np
import polars as pl

from pipeline import analyses
from pipeline.analyses import CONDITION_KEY, Evidence, evidence
from pipeline.core import dates, records, registry, tables
from pipeline.prompts import variants
from pipeline.settings.schema import CalendarSpec, ConditionsSpec
from pipeline.store import Counts, Manifest

FIRST = datetime.date(2024, 1, 1)
# Statistics of a wrong and of a right answer; the graded ones are those of 20 words or 100
# characters of which some match.
STATS = {
    "bleu": ([20.0, 20, 10, 6, 3, 1, 20, 19, 18, 17], [20.0, 20, 18, 16, 14, 12, 20, 19, 18, 17]),
    "chrf": ([100.0, 100, 40] * 6, [100.0, 100, 80] * 6),
    "ece": (
        [0.0] * 8 + [1, 0] + [0.0] * 8 + [0.9, 0] + [0.0] * 10,
        [0.0] * 8 + [1, 0] + [0.0] * 8 + [0.9, 0] + [0.0] * 8 + [1, 0],
    ),
}


def item(task: str, item_id: str, group: str, target: str) -> records.Item:
    return records.Item(
        task=task,
        item_id=item_id,
        group=group,
        fields={},
        options=list("ABCD"),
        target=target,
        references=[],
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One benchmark run of one model under one condition.

    It has `num_dates` dates, a control, and placebo copies of every `placebo_every`th date. Without
    dates the control is what a placebo copy repeats. Several runs that differ in the condition make
    a run with that axis.
    """

    model: str = "m"
    engine: str = "default"
    task: str = "mmlu"
    style: str = "zero_shot"
    metrics: tuple[str, ...] = ("accuracy",)
    num_items: int = 60
    num_dates: int = 30
    varying: float = 0.3
    """Share of items that are right on some dates only; half of the others are always right."""
    effect: float = 0.0
    """What the right share of the varying items gains on every fifth date."""
    noise: float = 0.0
    """Share of placebo copies whose answer is drawn anew."""
    placebo_every: int = 0
    no_answer: float = 0.0
    """Share of answers that are missing."""
    date_format: str = "iso"
    placement: str = "system_start"
    wording: str = "none"
    option_order: int = 0
    location: str = "none"
    year: int | None = None
    """Sweep the dates in this year, as one of several."""
    control: bool = True
    seed: int = 0

    def variants(self) -> pl.DataFrame:
        last = FIRST + datetime.timedelta(days=self.num_dates + 1)
        calendar = CalendarSpec(
            dates=dates.calendar(FIRST, last)[: self.num_dates],
            formats=[self.date_format],
            years=None if self.year is None else [self.year],
            control=self.control,
        )
        conditions = ConditionsSpec(
            placements=[self.placement],
            wordings=[self.wording],
            option_orders=[self.option_order],
            locations=[self.location],
        )
        return tables.from_records(records.Variant, variants.variants(calendar, conditions))

    def items(self) -> pl.DataFrame:
        items = [
            item(self.task, f"test-{i:05d}", f"group {i % 3}", "ABCD"[i % 4])
            for i in range(self.num_items)
        ]
        return tables.from_records(records.Item, items)

    def rows(self) -> pl.DataFrame:
        """Key, `right` and `answer` of every completion."""
        rng = np.random.default_rng([self.seed, *self.model.encode(), *self.task.encode()])
        is_varying = np.arange(self.num_items) < round(self.varying * self.num_items)
        share = np.where(
            is_varying, rng.uniform(0.2, 0.8, self.num_items), np.arange(self.num_items) % 2
        )
        gain = np.where(np.arange(self.num_dates) % 5 == 4, self.effect, 0.0)
        right = (
            rng.random((self.num_items, self.num_dates))
            < share[:, None] + is_varying[:, None] * gain
        )
        without_date = rng.random(self.num_items) < share
        asked = self.variants()
        columns = [
            (name, 0, without_date) for name in asked.filter(pl.col("date").is_null())["variant"]
        ]
        columns += [
            (name, 0, right[:, i]) for i, name in enumerate(asked.drop_nulls("date")["variant"])
        ]
        repeated = columns[1:] if self.control and self.num_dates else columns
        for name, _, outcome in repeated[:: self.placebo_every] if self.placebo_every else []:
            anew = rng.random(self.num_items) < self.noise
            columns.append((name, 1, np.where(anew, rng.random(self.num_items) < share, outcome)))
        return pl.concat([self._column(*column) for column in columns])

    def _column(self, variant: str, replicate: int, right: np.ndarray) -> pl.DataFrame:
        index = np.arange(self.num_items)
        missing = (
            np.random.default_rng([self.seed, *variant.encode(), replicate]).random(self.num_items)
            < self.no_answer
        )
        right = right & ~missing
        answer = [
            ("ABCD"[i % 4] if r else "ABCD"[(i + 1) % 4]) for i, r in zip(index, right, strict=True)
        ]
        answer = ["" if m else a for a, m in zip(answer, missing, strict=True)]
        return pl.DataFrame(
            {"item_id": [f"test-{i:05d}" for i in index], "right": right, "answer": answer}
        ).with_columns(
            model=pl.lit(self.model),
            engine=pl.lit(self.engine),
            task=pl.lit(self.task),
            style=pl.lit(self.style),
            variant=pl.lit(variant),
            replicate=pl.lit(replicate, dtype=pl.Int64),
            output_id=pl.Series([tables.output_id(a, []) for a in answer]),
        )

    def completions(self) -> pl.DataFrame:
        schema = tables.schema(records.Completion)
        rows = self.rows().with_columns(text=pl.col("answer"))
        missing = {
            name: pl.lit(None, dtype=dtype)
            for name, dtype in schema.items()
            if name not in rows.columns
        }
        return rows.with_columns(**missing).select(schema.names())

    def scores(self) -> pl.DataFrame:
        distinct = self.rows().unique(tables.OUTPUT_KEY, maintain_order=True)
        return pl.concat([self._scored(distinct, metric) for metric in self.metrics])

    def _scored(self, distinct: pl.DataFrame, metric: str) -> pl.DataFrame:
        by_right = STATS.get(metric, ([0.0], [1.0]))
        stats = [by_right[right] for right in distinct["right"]]
        schema = tables.schema(records.Score)
        status = (
            pl.when(pl.col("answer") == "").then(pl.lit("no_answer")).otherwise(pl.lit("scored"))
        )
        return distinct.with_columns(
            metric=pl.lit(metric),
            status=status,
            rule=pl.lit("argmax"),
            detail=pl.lit(""),
            signature=pl.lit(""),
            extraction_version=1,
            stats=pl.Series(stats),
        ).select(schema.names())


RUNS = (
    Run(num_items=24, num_dates=8, placebo_every=3, noise=0.2, metrics=("accuracy", "ece")),
    Run(model="other", num_items=24, num_dates=8, effect=0.5),
    Run(task="wmt16_en_de", metrics=("bleu", "chrf"), num_items=12, num_dates=8),
    Run(
        num_items=24,
        num_dates=8,
        placement="user_end",
        option_order=2,
        no_answer=0.1,
        metrics=("accuracy", "ece"),
    ),
)
"""Runs of several models, tasks, metrics and conditions."""


def parts(*runs: Run) -> dict[str, pl.DataFrame]:
    """The four frames of a folder that holds several runs.

    Outputs that they share are scored once.
    """
    return {
        "completions": pl.concat([r.completions() for r in runs]),
        "scores": pl.concat([r.scores() for r in runs]).unique(
            [*tables.OUTPUT_KEY, "metric"], maintain_order=True
        ),
        "variants": pl.concat([r.variants() for r in runs]).unique("variant", maintain_order=True),
        "items": pl.concat([r.items() for r in runs]).unique(
            ["task", "item_id"], maintain_order=True
        ),
    }


def evidence_of(*runs: Run) -> Evidence:
    """The evidence of several runs in one folder."""
    return evidence_in(parts(*runs))


def evidence_in(frames: dict[str, pl.DataFrame]) -> Evidence:
    """The evidence of the four frames of `parts`."""
    completions, scores = frames["completions"].lazy(), frames["scores"].lazy()
    return evidence(completions, scores, frames["variants"], frames["items"])


def tables_of(*runs: Run) -> dict[str, pl.DataFrame]:
    """All analysis tables of several runs in one folder."""
    made_up = evidence_of(*runs)
    return {name: analyses.get(name).table(made_up) for name in registry.names("analyses")}


def rows_in(frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """One row for each completion and metric, with its score, `date`, `CONDITION_KEY` and `group`.

    The plain join that tests hold tables against.
    """
    keys = frames["completions"].select(*tables.ROW_KEY, "output_id")
    variants = frames["variants"].select("variant", "date", *CONDITION_KEY)
    items = frames["items"].select("task", "item_id", "group")
    scored = keys.join(frames["scores"], on=tables.OUTPUT_KEY)
    dated = scored.join(variants, on="variant", how="left")
    return dated.join(items, on=["task", "item_id"], how="left")


def hand_made(
    outcomes: dict[str, list[str]], status: dict[str, str] | None = None
) -> dict[str, pl.DataFrame]:
    """The four frames of a run in which item `i` gave `outcomes[i]`, date by date.

    Every right answer is A; `status` names that of an answer, else `scored`.
    """
    status = status or {}
    variants = Run(num_dates=max(len(answers) for answers in outcomes.values())).variants()
    names = variants["variant"].to_list()[1:]
    run = {"model": "m", "engine": "default", "task": "mmlu", "style": "zero_shot"}
    completions, scores = [], {}
    for item_id, answers in outcomes.items():
        for variant, answer in zip(names, answers, strict=False):
            output = run | {"item_id": item_id, "output_id": tables.output_id(answer, [])}
            completions.append(output | {"variant": variant, "replicate": 0, "text": answer})
            state = status.get(answer, "scored")
            scores[item_id, answer] = output | {
                "metric": "accuracy",
                "status": state,
                "answer": answer,
                "rule": "argmax",
                "detail": "",
                "stats": None if state == "failed" else [float(answer == "A")],
            }
    items = [item("mmlu", item_id, "g", "A") for item_id in outcomes]
    return {
        "completions": pl.DataFrame(completions),
        "scores": pl.DataFrame(list(scores.values()), schema=tables.schema(records.Score)),
        "variants": variants,
        "items": tables.from_records(records.Item, items),
    }


def conditions_of(**values: object) -> dict[str, object]:
    """`CONDITION_KEY` of the usual condition, with other `values`; for rows made by hand."""
    usual = {
        "date_format": "iso",
        "placement": "system_start",
        "wording": "none",
        "option_order": 0,
        "location": "none",
        "year": None,
    }
    return {"condition": "iso", **usual, **values}


def manifest(settings: dict[str, Any]) -> Manifest:
    """A manifest whose settings are what `settings` says, and otherwise made up."""
    task = dict.fromkeys(("version", "max_tokens", "num_rows", "num_items"), 1)
    task |= dict.fromkeys(("dataset", "items_hash", "examples", "examples_hash"), "a")
    tasks = {name: task | given for name, given in settings.get("tasks", {}).items()}
    whole = {"sweep": {}, "texts": {}, "checkpoints": {}, "versions": {}, **settings}
    counts = dict.fromkeys(Counts.model_fields, 1)
    return Manifest.model_validate(
        {"settings": {**whole, "tasks": tasks}, "fingerprint": "a", "sweep": {}, "data": {}}
        | {"counts": counts}
    )
