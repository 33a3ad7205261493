"""What one check found."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["OK", "note", "problem"]
"""note: a run goes on, but not as well, or not with everything; problem: it would stop a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report on this machine."""

    what: str
    found: str
    verdict: Verdict = "OK"
    fix: str = ""
    """How to mend it, or what it means; empty where all is well."""
