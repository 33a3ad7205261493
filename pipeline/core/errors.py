"""The errors a user can cause and mend.

Each prints as one message, without a traceback, and ends with exit status 2.

A model that answers badly is data, not an error; what breaks on our side while scoring is a row
with status `failed`.
"""

import difflib
from collections.abc import Iterable, Sequence


class PipelineError(Exception):
    """Base of all errors meant for the user: what was given, what is allowed, where to fix it."""

    exit_code = 2


class ConfigError(PipelineError):
    """A settings file, or an option of the command line, that cannot be used."""


class DataError(PipelineError):
    """A data set or model that is missing, or whose rows are not as the task expects."""


class PromptError(PipelineError):
    """A prompt without its date, too long, or whose answer labels are not single tokens."""


class EngineError(PipelineError):
    """An engine that cannot start or died; completions already written are kept."""


class StoreError(PipelineError):
    """A run folder of other settings, in use, or not complete enough for the stage."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the closest allowed name; empty when none is close."""
    close = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def first_few(entries: Sequence[str], most: int, what: str = "more") -> list[str]:
    """The first `most` of the entries of a message, and then how many more there are."""
    rest = len(entries) - most
    return [*entries[:most], *([f"... and {rest:,} {what}"] if rest > 0 else [])]
