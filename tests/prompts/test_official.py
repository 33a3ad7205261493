"""The official templates and tokenizers against those here, where the Hub is to be had.

`DATESWEEP_ONLINE=1` compares them.
"""

import datetime
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.core import dates
from pipeline.prompts import PromptBuilder
from tests.prompts.families import FAMILY_OF, TEMPLATES, asked, every_model, on, spec_of


@dataclass(frozen=True, kw_only=True)
class Ids:
    """Token ids of a family's tokenizer."""

    answer: list[int]
    """`Answer:`, with what opens the final channel before it."""
    spaced: tuple[int, ...]
    bare: tuple[int, ...]


IDS = {
    "llama31": Ids(answer=[16533, 25], spaced=(362, 426, 356, 423), bare=(32, 33, 34, 35)),
    "phi4": Ids(answer=[16533, 25], spaced=(362, 426, 356, 423), bare=(32, 33, 34, 35)),
    "qwen3": Ids(answer=[16141, 25], spaced=(362, 425, 356, 422), bare=(32, 33, 34, 35)),
    "qwen3_next": Ids(answer=[16141, 25], spaced=(362, 425, 356, 422), bare=(32, 33, 34, 35)),
    "gemma3": Ids(
        answer=[7925, 236787], spaced=(562, 603, 565, 622), bare=(236776, 236799, 236780, 236796)
    ),
    "gpt_oss": Ids(
        answer=[200006, 173781, 200005, 17196, 200008, 17045, 25],
        spaced=(355, 418, 363, 415),
        bare=(32, 33, 34, 35),
    ),
}
SYSTEM, USER, PREFILL = (
    {"role": r, "content": c}
    for r, c in (("system", "Be brief."), ("user", " Hi? \n"), ("assistant", "Answer:"))
)
SHAPES = {
    "system and user": [SYSTEM, USER],
    "prefilled": [SYSTEM, USER, PREFILL],
    "no system": [USER],
    "empty system": [{"role": "system", "content": ""}, USER],
    "examples": [SYSTEM, USER, {"role": "assistant", "content": "Answer: A"}, USER, PREFILL],
}
online = pytest.mark.skipif(
    os.environ.get("DATESWEEP_ONLINE") != "1",
    reason="asks the Hub; set DATESWEEP_ONLINE=1 to run it",
)


def fetched(hub: str) -> Path:
    """The small files of a Hub repository.

    Fetched by another process, as this one was told to stay offline.
    """
    script = (
        "import sys, huggingface_hub\n"
        "try:\n    print(huggingface_hub.snapshot_download(sys.argv[1], "
        "allow_patterns=['*.json', '*.jinja']))\n"
        "except Exception as error:\n    sys.exit(f'{type(error).__name__}: {error}')\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script, hub],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode == 0:
        return Path(done.stdout.strip().splitlines()[-1])
    reason = next(
        (
            line
            for line in done.stderr.splitlines()
            if line.startswith(("GatedRepoError", "LocalEntryNotFoundError"))
        ),
        None,
    )
    if reason is None:
        pytest.fail(f"{hub}: {done.stderr.strip()}")
    pytest.skip(f"{hub} is not to be had: {reason}")


@online
@every_model
def test_the_official_template_renders_as_the_familys_here(model: str) -> None:
    folder = fetched(str(spec_of(model).weights.hub))
    official, ours = (PromptBuilder(spec_of(model), folder) for _ in range(2))
    ours.tokenizer.hf.chat_template = (TEMPLATES / f"{FAMILY_OF[model]}.jinja").read_text()
    slotted = on(date_format="day_month_year", placements=["template"])
    for shape, turns in SHAPES.items():
        expected = official.render(turns, slotted)
        assert ours.render(turns, slotted) == expected, shape
        if FAMILY_OF[model] == "llama31" and turns[0]["role"] == "system":
            undated = expected.replace(
                "Cutting Knowledge Date: December 2023\nToday Date: 05 Mar 2024\n\n", ""
            )
            assert official.render(turns, on()) == undated, (
                f"{shape}: paper mode leaves out the date lines and nothing else"
            )


@online
@every_model
def test_the_official_tokenizer_has_the_known_ids_and_dates_of_one_length(model: str) -> None:
    builder, ids = (
        PromptBuilder(spec_of(model), fetched(str(spec_of(model).weights.hub))),
        IDS[FAMILY_OF[model]],
    )
    prompt = asked(builder, on())
    assert builder.tokenizer.encode(prompt.text("2024-03-05"))[-len(ids.answer) :] == ids.answer
    assert (
        builder.tokenizer.label_token_ids(prompt.text("2024-03-05"), [" A", " B", " C", " D"])
        == ids.spaced
    )
    assert (
        tuple(token for letter in "ABCD" for token in builder.tokenizer.encode(letter)) == ids.bare
    )
    year = dates.calendar(datetime.date(2024, 1, 1), datetime.date(2024, 12, 31), leap_day="keep")
    for name, write in dates.DATE_FORMATS.items():
        lengths = {len(builder.tokenizer.encode(prompt.text(write(day)))) for day in year}
        assert len(lengths) == 1, f"{name}: the date would move what follows it"
