"""This machine is examined as a whole, and what is said of it is shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.commands import doctor
from pipeline.commands.doctor import Finding, verdicts
from pipeline.commands.doctor.finding import Verdict
from pipeline.core import cores
from tests.console import printed


def test_the_token_is_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_not_to_be_seen")
    findings = [f for f in doctor.examine(str(tmp_path), with_ray=False) if f.what == "Hub token"]
    assert [f.verdict for f in findings] == ["OK"]
    assert "not_to_be_seen" not in str(findings)
    assert verdicts.token(is_set=False).verdict == "note"


def test_a_check_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*args: object) -> object:
        raise OSError("no such thing")

    monkeypatch.setattr(cores, "limits", broken)
    findings = doctor.examine(str(tmp_path), with_ray=False)
    assert [f.verdict for f in findings if "OSError: no such thing" in f.text] == ["note"]
    assert {"Python", "Hub", "disk: runs"} <= {f.what for f in findings}


def test_this_machine_is_fit_and_nothing_heavy_is_imported_to_say_so(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pipeline.commands import doctor\n"
        f"findings = doctor.examine({str(tmp_path)!r}, with_ray=False)\n"
        "print(*[f'{f.what}: {f.text}' for f in findings if f.verdict == 'problem'], sep='\\n')\n"
        "print([m for m in ('vllm', 'ray', 'torch', 'transformers', 'datasets') if m in "
        "sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]


@pytest.mark.parametrize(
    ("given", "fit", "line"),
    [
        (["OK", "note"], True, "nothing stands in the way of a run; 1 note(s)"),
        (["OK", "problem", "note", "problem"], False, "2 problem(s) would stop a run; 1 note(s)"),
    ],
)
def test_the_table_says_how_to_mend_what_is_wrong(
    given: list[Verdict], fit: bool, line: str
) -> None:
    findings = [
        Finding(verdict, f"thing {i}", "[red] text", "mend it" if verdict != "OK" else "")
        for i, verdict in enumerate(given)
    ]
    text = printed(doctor.table_of(findings))
    assert doctor.is_fit(findings) is fit
    assert line in " ".join(text.split())
    assert text.count("mend it") == len(given) - given.count("OK")
    assert text.count("[red] text") == len(given), "what it says is text and no markup"
