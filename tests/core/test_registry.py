import subprocess
import sys

import pytest

from pipeline.core import registry
from pipeline.core.errors import ConfigError, nearest


def test_helpers_with_an_underscore_are_no_entries() -> None:
    assert "humaneval" in registry.names("tasks")
    assert not [
        name
        for kind in ("tasks", "metrics", "analyses")
        for name in registry.names(kind)
        if name.startswith("_")
    ]


def test_names_come_without_importing_the_entries() -> None:
    code = (
        "import sys; from pipeline.core import registry as r; r.names('metrics'); "
        "print('sacrebleu' in sys.modules, 'polars' in sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines()[0] == "False False"


def test_an_unknown_entry_names_the_nearest_and_all_there_are() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'bleu'.*there are: accuracy"):
        registry.module("metrics", "bleuu")


def test_nothing_is_suggested_when_nothing_is_near() -> None:
    assert nearest("zzz", ["mmlu", "gsm8k"]) == ""
