"""What a sweep asks: its tasks in their styles, narrowed to a limit, with worked examples."""

import hashlib
from dataclasses import dataclass

from pipeline import tasks
from pipeline.core.errors import DataError
from pipeline.core.records import Item
from pipeline.data import first_available, read_rows
from pipeline.settings import ModelSpec, TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A task in one style, as a sweep asks it."""

    spec: TaskSpec
    items: list[Item]
    examples: list[Item]
    """Items for worked examples; empty for styles without."""
    num_rows: int
    """Rows of the whole data set."""
    example_source: str
    """The split that the examples are from, or an empty string."""

    @property
    def name(self) -> str:
        """Task and style, as in `mmlu.five_shot`."""
        return f"{self.spec.name}.{self.spec.style}"

    @property
    def task(self) -> tasks.Task:
        """The task in its style."""
        return tasks.get(self.spec.name, self.spec.style)

    def max_tokens(self, model: ModelSpec) -> int:
        """Longest output in tokens: the sweep's value, else the task's own.

        More for a model that thinks aloud where a task lets it write.
        """
        task = self.task
        thinking = model.thinking_tokens if task.kind == "text" else 0
        return (self.spec.max_tokens or task.max_tokens) + thinking


def load(spec: TaskSpec, data_root: str | None) -> Benchmark:
    """One task of a sweep: its items, narrowed to its limit, and its worked examples.

    Raises:
        ConfigError: the task does not offer the style.
        DataError: the data is missing, not as the task expects, or of another size than the sweep
            says.
    """
    task = tasks.get(spec.name, spec.style)
    items = list(task.items(read_rows(task.source, data_root)))
    if not items or (spec.rows is not None and len(items) != spec.rows):
        message = f"task {task.name}: {task.source.dataset} ({task.source.config}, "
        message += f"{task.source.split}) has {len(items):,} rows"
        if items:
            message += f", and the sweep says rows = {spec.rows:,}: it is another edition, or a "
            message += "mirror of a part of it"
        raise DataError(message)
    examples: list[Item] = []
    example_source = ""
    if task.num_shots:
        source = first_available(task.example_sources, data_root)
        examples = list(task.examples(read_rows(source, data_root), items))
        example_source = f"{source.config}/{source.split}"
    return Benchmark(
        spec=spec,
        items=select(items, spec.limit, spec.subset_seed),
        examples=examples,
        num_rows=len(items),
        example_source=example_source,
    )


def select(items: list[Item], limit: int | None, seed: int = 0) -> list[Item]:
    """At most `limit` items, in their own order: those whose ids hash lowest in each group.

    As evenly from all groups as may be. That is the same choice on every machine and for every
    model; a larger limit keeps what a smaller one chose. 285 items of MMLU are thus five of each of
    its 57 subjects.
    """
    if limit is None or limit >= len(items):
        return items
    prefix = str(seed or "")
    digests = {
        i.item_id: hashlib.sha256(f"{prefix}{i.task}:{i.item_id}".encode()).digest() for i in items
    }
    group_sizes: dict[str, int] = {}
    ranks: dict[str, tuple[int, bytes]] = {}
    for item in sorted(items, key=lambda item: digests[item.item_id]):
        number = group_sizes.get(item.group, 0)
        group_sizes[item.group] = number + 1
        ranks[item.item_id] = number, digests[item.item_id]
    chosen = set(sorted(ranks, key=ranks.__getitem__)[:limit])
    return [item for item in items if item.item_id in chosen]
