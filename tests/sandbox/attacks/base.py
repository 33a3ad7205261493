"""A hostile program: what it tries, which layers can hold it, and what must become of it.

All begin with `TOOLS` and are tested by `TESTS`. One that is expected to pass looks for a hole in
the walls, fails if it finds one, and answers rightly otherwise.
"""

from dataclasses import dataclass
from textwrap import dedent, indent

from pipeline.sandbox.run import UnitTests

TESTS = UnitTests(source="for n in range(3, 9):\n    assert f(n) == n * n + 1\n", functions=["f"])
SOUND = "def f(n):\n    return n * n + 1\n"
WRONG = "def f(n):\n    return 0\n"

TOOLS = """
import builtins, ctypes, gc, json, os, re, resource, signal, socket, subprocess
import sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)

def tell(text):
    for fd in range(64):
        try:
            os.write(fd, text)
        except OSError:
            pass

def must(result):
    if result == -1:
        raise OSError(ctypes.get_errno())
"""
"""Constants come before it: OUTSIDE and HOME, folders of the caller; CALLER, its process; TCP and
UDP, its ports; MARK, a name."""

ANY: tuple[str, ...] = ()
ROOT = ("namespaces", "bubblewrap")
"""Layers with a root of their own."""
FILES = (*ROOT, "landlock")
SCOPES = (*ROOT, "landlock 6")
"""Layers that keep signals and abstract sockets in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One hostile program."""

    name: str
    program: str
    expected: str
    """Words: the statuses that are right."""
    needs: tuple[str, ...]
    """Layers of which one must be there, or the attack cannot be held."""


def cheats(
    name: str, program: str, *, expected: str = "failed", needs: tuple[str, ...] = ANY
) -> Attack:
    """A program that does not know the answers: its `f` is wrong unless it defines another."""
    return Attack(
        name=name, program=TOOLS + WRONG + dedent(program), expected=expected, needs=needs
    )


def leaves(name: str, program: str, *, needs: tuple[str, ...] = ANY) -> Attack:
    """A sound program that leaves something behind."""
    return Attack(
        name=name, program=TOOLS + dedent(program) + "\n" + SOUND, expected="passed", needs=needs
    )


def held(
    name: str, attempt: str, *, needs: tuple[str, ...] = ANY, errors: str = "OSError"
) -> Attack:
    """A program with the right answers that must get one of `errors` first."""
    tried = (
        f"try:\n{indent(dedent(attempt), '    ')}\nexcept ({errors},): pass\nelse: raise "
        "SystemError('a hole in the walls')\n"
    )
    return Attack(name=name, program=TOOLS + tried + SOUND, expected="passed", needs=needs)
