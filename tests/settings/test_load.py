import re
from pathlib import Path

import pytest

from pipeline import settings
from pipeline.core.errors import ConfigError

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
        (
            "[calendar]\nstepp = 2",
            ["calendar.stepp", "unknown key", "given 2", "did you mean 'step'"],
        ),
        ("[calendar]\nstep = -2", ["calendar.step", "given -2", "a number from 1"]),
        ("[calendar]\nplacebo = true", ["calendar.placebo", "given True", "a whole number"]),
        (
            "[calendar]\nfirst = 2024-02-30",
            ["calendar.first", "2024-02-30", "allowed: a date like"],
        ),
        ("[calendar]\nlast = 2023-12-31", ["calendar.last", "before first"]),
        ("[calendar]\ndates = [2024-01-01]\nstep = 2", ["calendar.dates", "together with step"]),
        ("[calendar]\nfirst = 2024-02-29\nlast = 2024-02-29", ["calendar.leap_day", "keep"]),
        ('[calendar]\nformats = ["isso"]', ["calendar.formats.0", "did you mean 'iso'"]),
        (
            '[calendar]\nleap_day = "skp"',
            ["calendar.leap_day", "'skip' or 'keep'", "did you mean 'skip'"],
        ),
        ("[engine]\nreplicas = 0", ["engine.replicas", "a number from 1 or 'auto'"]),
        (
            '[[tasks]]\nname = "mmul"',
            ["tasks.1.name", "allowed: arc_challenge", "did you mean 'mmlu'"],
        ),
        ('[[tasks]]\nname = "mmlu"', ["tasks: mmlu.zero_shot is given twice"]),
        (
            '[calendar]\nformats = ["iso", "slashes", "iso"]',
            ["calendar.formats: iso is given twice"],
        ),
        (
            "[calendar]\ndates = [2024-01-05, 2024-01-05]",
            ["calendar.dates: 2024-01-05 is given twice"],
        ),
        ("[calendar]\nyears = [2023, 2023]", ["calendar.years: 2023 is given twice"]),
        ('name = "a/b"', ["name", "letters, digits"]),
        ("[calendar]\nfirst = 2024-01-01T00:00:00", ["calendar.first", "allowed: a date like"]),
        ("nme = 3", ["nme", "given 3", "did you mean 'name'"]),
        ("[calendar]\ndates = []\ncontrol = false", ["calendar.dates", "nothing would be asked"]),
        ("[calendar]\nyears = []", ["calendar.years", "at least 1 entry"]),
        (
            '[conditions]\nplacements = ["system_ent"]',
            ["conditions.placements.0", "did you mean 'system_end'"],
        ),
        (
            '[conditions]\nwordings = ["polite"]',
            ["conditions.wordings.0", "allowed: none, helpful"],
        ),
        ('[conditions]\nlocations = ["tokio"]', ["conditions.locations.0", "did you mean 'tokyo'"]),
        ("[conditions]\noption_orders = [-1]", ["conditions.option_orders.0", "a number from 0"]),
        ("[conditions]\noption_orders = [1, 1]", ["conditions.option_orders", "1 is given twice"]),
        ('[engine]\ndtype = "fp16"', ["engine.dtype", "'float16'"]),
    ],
)
def test_a_fault_says_where_what_was_given_and_what_is_allowed(
    tmp_path: Path, line: str, words: list[str]
) -> None:
    # Keys of the top level must come before the first table.
    good = GOOD.replace('name = "good"\n', "") if line.startswith("name") else GOOD
    text = f"{line}\n{good}" if "[" not in line.split("\n")[0] else f"{good}\n{line}\n"
    message = fault_of(tmp_path, text)
    for word in words:
        assert word in message


def test_all_faults_of_all_files_come_at_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        'name = "m"\ntitle = "m"\nlicence = "x"\n[weights]\nhub = "a"\npath = '
        '"b"\n[sampling]\ntop_p = 2.0\n',
        "m.toml",
    )
    message = fault_of(
        tmp_path,
        'name = "s"\nmodels = ["m.toml", "simulatd"]\n[[tasks]]\nname = "nope"\nlimit = '
        "0\n[calendar]\nstep = 0\nfirst = 2024-13-01\n",
    )
    for word in [
        "exactly one of them",
        "sampling.top_p",
        "simulatd",
        "tasks.0.name",
        "tasks.0.limit",
        "calendar.step",
        "calendar.first",
    ]:
        assert word in message
    assert message.startswith("7 faults")


def test_a_list_of_tasks_that_is_none_is_a_fault(tmp_path: Path) -> None:
    assert "tasks: given 3; allowed: a list" in fault_of(
        tmp_path, 'name = "x"\nmodels = ["simulated"]\ntasks = 3\n'
    )


def test_a_single_table_of_tasks_is_told_its_brackets(tmp_path: Path) -> None:
    assert "allowed: a list of tables, each headed [[tasks]]" in fault_of(
        tmp_path, GOOD.replace("[[tasks]]", "[tasks]")
    )
    assert "tasks: missing; it must be given, as one table headed [[tasks]]" in fault_of(
        tmp_path, 'name = "x"\nmodels = ["simulated"]\n'
    )


def test_styles_that_tasks_do_not_offer_name_the_file_and_the_key(tmp_path: Path) -> None:
    styled = (
        'style = "cot"\n[[tasks]]\nname = "gsm8k"\nstyle = "cot"\n[[tasks]]\nname = '
        '"arc_challenge"\nstyle = "cot"\n'
    )
    message = fault_of(tmp_path, GOOD + styled)
    assert message.startswith("2 faults")
    assert (
        f"{tmp_path / 'sweep.toml'}: tasks.1.style: given 'cot'; allowed for task gsm8k: zero_shot"
        in message
    )
    assert (
        "tasks.2.style: given 'cot'; allowed for task arc_challenge: zero_shot, five_shot"
        in message
    )


def test_two_model_files_of_one_name_are_a_fault(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        write(tmp_path, 'name = "same"\ntitle = "m"\nlicence = "x"\n[weights]\nhub = "a/b"\n', name)
    assert "two model files say name = 'same'" in fault_of(
        tmp_path, GOOD.replace('"simulated"', '"a.toml", "b.toml"')
    )


def test_text_that_is_not_toml_is_reported_with_its_place(tmp_path: Path) -> None:
    assert "not valid TOML" in fault_of(tmp_path, "name = = 3")


def test_an_unknown_sweep_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'demo'"):
        settings.load_sweep("demmo")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("paper/paper-size/table5-wordign", "'paper/paper-size/table5-wording'"),
        (
            "configs/sweeps/paper/paper-size/table5-wordign.toml",
            "'paper/paper-size/table5-wording'",
        ),
        ("table5-wordign", "'paper/full-size/table5-wording' or 'paper/paper-size/table5-wording'"),
        ("figure14", "'paper/full-size/figure14-location' or 'paper/paper-size/figure14-location'"),
        ("paper/paper-size/table1", "'paper/paper-size/table1-mcqa'"),
        ("full-year", "'full-year-cpu'"),
    ],
)
def test_an_unknown_sweep_in_a_folder_names_the_nearest(given: str, hint: str) -> None:
    with pytest.raises(
        ConfigError, match=re.escape(f"no sweep file {given!r} (did you mean {hint}?)")
    ):
        settings.load_sweep(given)


def test_the_mirror_is_relative_to_the_sweep_file(tmp_path: Path) -> None:
    spec = settings.load_sweep(write(tmp_path, 'data_root = "data"\n' + GOOD))
    assert spec.data_root == str(tmp_path.resolve() / "data")
