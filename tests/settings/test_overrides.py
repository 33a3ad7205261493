"""A sweep narrowed, or asked of other models and engines, from the command line."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline import settings
from pipeline.core.errors import ConfigError
from pipeline.settings import SweepSpec
from tests.settings.test_load import GOOD, write


def changed(spec: SweepSpec, **options: Any) -> SweepSpec:
    return settings.override(spec, settings.Overrides(**options))


def test_narrowing_keeps_what_it_narrowed(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD + "limit = 5\n"))
    narrowed = changed(spec, limit=9, dates="2024-03-01..2024-03-03", tasks="mmlu")
    assert narrowed.tasks[0].limit == 5, "a limit never widens a sweep"
    assert narrowed.calendar.days() == [datetime.date(2024, 3, d) for d in (1, 2, 3)]
    assert narrowed.narrowing == {
        "--limit": "9",
        "--dates": "2024-03-01..2024-03-03",
        "--tasks": "mmlu",
    }


def test_a_number_of_dates_is_spread_over_the_calendar(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    days = changed(spec, dates="4").calendar.days()
    assert [d.month for d in days] == [1, 4, 7, 10]


def test_consent_is_given_and_never_taken_back(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    willing = changed(spec, allow_code_execution=True)
    assert not changed(spec).allow_code_execution
    assert changed(willing, limit=1).allow_code_execution


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("limit", 0, "--limit"),
        ("dates", "2024-02-29", "not swept: 2024-02-29"),
        ("dates", "tomorrow", "a count"),
        ("dates", "2023-01-01..2023-02-01", "365 dates from 2024-01-01"),
        ("models", "simulatd", "did you mean 'simulated'"),
        ("models", " , ", "names separated by commas"),
        ("tasks", "gsm8k", r"as this sweep has them: mmlu\.zero_shot"),
    ],
)
def test_narrowing_to_what_is_not_there_is_refused(
    tmp_path: Path, option: str, value: object, word: str
) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    with pytest.raises(ConfigError, match=word):
        changed(spec, **{option: value})


def test_a_task_can_be_chosen_in_one_style(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD + '[[tasks]]\nname = "mmlu"\nstyle = "cot"\n'))
    assert [t.style for t in changed(spec, tasks="mmlu").tasks] == ["zero_shot", "cot"]
    assert [t.style for t in changed(spec, tasks="mmlu.cot").tasks] == ["cot"]


def test_a_sweep_can_be_asked_of_another_model(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    [model] = changed(spec, models="smollm2-135m-instruct").models
    assert model.name == "smollm2-135m-instruct"
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntitle = "m"\nlicence = "x"\n[weights]\nhub = "a/b"\n')
    assert [m.name for m in changed(spec, models=f"simulated,{path}").models] == [
        "simulated",
        "mine",
    ]


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    path = tmp_path / "mine.toml"
    path.write_text('name = "simulated"\ntitle = "m"\nlicence = "x"\n[weights]\nhub = "a/b"\n')
    with pytest.raises(ConfigError, match=r"--models.*two model files say name = 'simulated'"):
        changed(spec, models=f"simulated,{path}")


def test_no_dates_leaves_the_control(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    assert changed(spec, dates="0").calendar.days() == []


def test_a_chosen_day_is_asked_in_every_year_of_the_sweep(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD + "[calendar]\nyears = [2023, 2025]\n"))
    assert len(spec.calendar.days()) == 2 * 365
    days = changed(spec, dates="2024-03-05").calendar.days()
    assert days == [datetime.date(2023, 3, 5), datetime.date(2025, 3, 5)]


def test_an_engine_setting_gets_a_name_of_its_own_unless_it_is_given_one(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    engine = changed(spec, engine="max_num_seqs=4, dtype=float16").engine
    assert (engine.max_num_seqs, engine.dtype, engine.name) == (
        4,
        "float16",
        "max_num_seqs-4-dtype-float16",
    )
    assert changed(spec, engine="name=a100").engine.name == "a100"
    assert changed(spec) == spec


def test_settings_that_change_no_result_leave_the_name(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD + '[engine]\nname = "a100"\n'))
    engine = changed(spec, engine="replicas=2,threads=1").engine
    assert (engine.replicas, engine.threads, engine.name) == (2, 1, "a100")
    assert changed(spec, engine="replicas=2,dtype=float16").engine.name == "dtype-float16"


@pytest.mark.parametrize(
    ("given", "name"),
    [("4", "4"), ("2024-01-05", "2024-01-05"), ('"4"', "4"), ("true", "true"), ("1.50", "1.50")],
)
def test_an_engine_name_is_text_whatever_it_looks_like(
    tmp_path: Path, given: str, name: str
) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    assert changed(spec, engine=f"name={given},max_num_seqs=4").engine.name == name


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ("max_num_seq=4", "did you mean 'max_num_seqs'"),
        ("max_num_seqs=many", "a number from 1|a whole number"),
        ("dtype=fp16", "float16"),
        ("max_num_seqs=4,dtype=float16,max_num_seqs=8", "max_num_seqs is given twice"),
        ("", r"--engine: given '', where '' is no setting; allowed: as in max_num_seqs=4"),
        ("max_num_seqs=4,", r"'' is no setting"),
        ("max_num_seqs", r"'max_num_seqs' is no setting"),
        ("dtype= ", r"'dtype= ' is no setting"),
    ],
)
def test_an_engine_setting_that_is_none_is_refused(tmp_path: Path, given: str, word: str) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    with pytest.raises(ConfigError, match=word):
        changed(spec, engine=given)
