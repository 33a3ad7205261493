import datetime
from pathlib import Path

import pytest

from pipeline import config, settings
from pipeline.errors import ConfigError

GOOD = """
name = "good"
models = ["simulated"]
[[tasks]]
name = "mmlu"
"""


def write(folder: Path, text: str, name: str = "sweep.toml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def fault_of(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        settings.load_sweep(write(folder, text))
    return str(caught.value)


def test_a_small_file_gets_the_documented_defaults(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    assert len(spec.calendar.days()) == 365
    assert spec.calendar.formats == ["iso"]
    assert spec.calendar.control
    assert spec.calendar.placebo == 0


@pytest.mark.parametrize("path", sorted(Path("configs/sweeps").rglob("*.toml")), ids=str)
def test_every_shipped_sweep_loads(path: Path) -> None:
    assert settings.load_sweep(str(path)).models


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[calendar]\nstepp = 2", ["calendar.stepp", "unknown key", "given 2", "did you mean 'step'"]),
        ("[calendar]\nstep = -2", ["calendar.step", "given -2", "a number from 1"]),
        ("[calendar]\nplacebo = true", ["calendar.placebo", "given True", "a whole number"]),
        ("[calendar]\nfirst = 2024-02-30", ["calendar.first", "2024-02-30", "allowed: a date like"]),
        ("[calendar]\nlast = 2023-12-31", ["calendar.last", "before first"]),
        ("[calendar]\ndates = [2024-01-01]\nstep = 2", ["calendar.dates", "together with step"]),
        ("[calendar]\nfirst = 2024-02-29\nlast = 2024-02-29", ["calendar.leap_day", "keep"]),
        ('[calendar]\nformats = ["isso"]', ["calendar.formats.0", "did you mean 'iso'"]),
        ('[calendar]\nleap_day = "skp"', ["calendar.leap_day", "'skip' or 'keep'", "did you mean 'skip'"]),
        ("[engine]\nreplicas = 0", ["engine.replicas", "a number from 1 or 'auto'"]),
        ('[[tasks]]\nname = "mmul"', ["tasks.1.name", "allowed: gsm8k", "did you mean 'mmlu'"]),
        ('[[tasks]]\nname = "mmlu"', ["given twice"]),
        ('name = "a/b"', ["name", "letters, digits"]),
        ("[calendar]\nfirst = 2024-01-01T00:00:00", ["calendar.first", "allowed: a date like"]),
        ("nme = 3", ["nme", "given 3", "did you mean 'name'"]),
    ],
)
def test_a_fault_says_where_what_was_given_and_what_is_allowed(tmp_path: Path, line: str, words: list[str]) -> None:
    # Keys of the top level must come before the first table.
    good = GOOD.replace('name = "good"\n', "") if line.startswith("name") else GOOD
    text = f"{line}\n{good}" if "[" not in line.split("\n")[0] else f"{good}\n{line}\n"
    message = fault_of(tmp_path, text)
    for word in words:
        assert word in message


def test_all_faults_of_all_files_come_at_once(tmp_path: Path) -> None:
    write(tmp_path, 'name = "m"\ntitle = "m"\nlicence = "x"\n[weights]\nhub = "a"\npath = "b"\n[sampling]\ntop_p = 2.0\n', "m.toml")
    message = fault_of(
        tmp_path,
        'name = "s"\nmodels = ["m.toml", "simulatd"]\n[[tasks]]\nname = "nope"\nlimit = 0\n[calendar]\nstep = 0\nfirst = 2024-13-01\n',
    )
    for word in ["exactly one of them", "sampling.top_p", "simulatd", "tasks.0.name", "tasks.0.limit", "calendar.step", "calendar.first"]:
        assert word in message
    assert message.startswith("7 faults")


def test_a_list_of_tasks_that_is_none_is_a_fault(tmp_path: Path) -> None:
    assert "tasks: given 3; allowed: a list" in fault_of(tmp_path, 'name = "x"\nmodels = ["simulated"]\ntasks = 3\n')


def test_two_model_files_of_one_name_are_a_fault(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        write(tmp_path, 'name = "same"\ntitle = "m"\nlicence = "x"\n[weights]\nhub = "a/b"\n', name)
    assert "two model files say name = 'same'" in fault_of(tmp_path, GOOD.replace('"simulated"', '"a.toml", "b.toml"'))


def test_text_that_is_not_toml_is_reported_with_its_place(tmp_path: Path) -> None:
    assert "not valid TOML" in fault_of(tmp_path, "name = = 3")


def test_an_unknown_sweep_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'demo'"):
        settings.load_sweep("demmo")


def test_the_mirror_is_relative_to_the_sweep_file(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, 'data_root = "data"\n' + GOOD))
    assert spec.data_root == str(tmp_path.resolve() / "data")


def test_narrowing_keeps_what_it_narrowed(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD + "limit = 5\n"))
    narrowed = config.narrow(spec, limit=9, days="2024-03-01..2024-03-03", models=None, tasks="mmlu")
    assert narrowed.tasks[0].limit == 5, "a limit never widens a sweep"
    assert narrowed.calendar.days() == [datetime.date(2024, 3, d) for d in (1, 2, 3)]
    assert narrowed.narrowing == {"--limit": "9", "--dates": "2024-03-01..2024-03-03", "--tasks": "mmlu"}


def test_a_number_of_dates_is_spread_over_the_calendar(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    days = config.narrow(spec, days="4").calendar.days()
    assert [d.month for d in days] == [1, 4, 7, 10]


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("limit", 0, "--limit"),
        ("days", "2024-02-29", "not swept: 2024-02-29"),
        ("days", "tomorrow", "a count"),
        ("days", "2023-01-01..2023-02-01", "365 dates from 2024-01-01"),
        ("models", "simulatd", "did you mean 'simulated'"),
        ("tasks", "gsm8k", "as this sweep has them: mmlu"),
    ],
)
def test_narrowing_to_what_is_not_there_is_refused(tmp_path: Path, option: str, value: object, word: str) -> None:
    spec = settings.load_sweep(write(tmp_path, GOOD))
    with pytest.raises(ConfigError, match=word):
        config.narrow(spec, **{option: value})  # type: ignore[arg-type]
