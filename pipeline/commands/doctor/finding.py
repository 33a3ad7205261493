"""What one check says."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["OK", "note", "problem"]
"""note: a run goes on, but not as well, or not with everything; problem: it would stop a run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report on this machine."""

    verdict: Verdict
    what: str
    text: str
    fix: str = ""
    """How to mend it, or what it means; empty where all is well."""


def ok(what: str, text: str, fix: str = "") -> Finding:
    """A line on what is well."""
    return Finding("OK", what, text, fix)


def note(what: str, text: str, fix: str) -> Finding:
    """A line on what a run can do without."""
    return Finding("note", what, text, fix)


def problem(what: str, text: str, fix: str) -> Finding:
    """A line on what would stop a run."""
    return Finding("problem", what, text, fix)
