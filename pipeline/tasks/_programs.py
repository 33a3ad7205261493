"""A complete program out of a model's output, for tasks that give the head of a function.

The prompt is always part of the program, byte for byte, since it may import or define what the
tests call. Whether an output holds a whole function or only a body is decided by parsing, as is
where code ends and prose begins. Text is parsed here, never run.
"""

import ast
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline.tasks import NO_ANSWER, Answer
from pipeline.tasks._reasoning import visible

_FENCE = re.compile(r"(```|~~~)[ \t]*([\w+.#-]*)[^\n`]*\n(.*?)(?:\1|\Z)", re.DOTALL)
"""A fenced block: its mark, its tag, its code. One that never closes reaches to the end, as in a
text that was cut off."""
_PYTHON_TAGS = frozenset({"", "python", "python3", "py", "py3"})
_CODE_LINE = re.compile(
    r"^(?:def |class |async def |@\w|import \w[\w., ]*$|from [\w.]+ import )", re.MULTILINE
)
_PROSE_BEFORE_BODY = re.compile(r"(?:\S[^\n]*\n|[ \t]*\n)*?[ \t]*\n(?=[ \t]+\S)")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_DEFINITIONS = (*_SCOPES, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a function that the model was asked to finish."""

    prompt: str
    entry_point: str

    @property
    def num_lines(self) -> int:
        """Lines that the prompt fills."""
        return self.prompt.count("\n")

    @property
    def runnable(self) -> str:
        """The prompt as a program of its own, so that a whole function can follow it."""
        return self.prompt if _parse(self.prompt) else f"{self.prompt}    pass\n"


def read_program(prompt: str, entry_point: str, text: str) -> Answer:
    """The program that `text` makes of `prompt`, ready to be run before the tests, or `NO_ANSWER`.

    A whole function is preferred to a body, fenced code to unfenced, and a later block to an
    earlier one. A Python block from which neither can be had is appended as it is (`verbatim`), so
    that the run says what is wrong with it.

    Args:
        prompt: head of the function, with a newline at its end.
        entry_point: name of the function.
        text: what the model wrote.
    """
    head = Head(prompt if prompt.endswith("\n") else f"{prompt}\n", entry_point)
    text = visible(text)
    blocks = [
        code
        for _, tag, code in _FENCE.findall(text)
        if tag.lower() in _PYTHON_TAGS and code.strip()
    ]
    unfenced = _FENCE.split(text, maxsplit=1)[0]
    attempts: Iterator[tuple[str, str | None]] = (
        (rule, read(head, codes))
        for rule, read, codes in (
            ("function", _with_function, blocks),
            ("unfenced_function", _with_function, [unfenced]),
            ("body", _with_body, blocks),
            ("unfenced_body", _with_body, [unfenced]),
            ("verbatim", _verbatim, blocks),
        )
    )
    return next(
        (Answer(answer=program, rule=rule) for rule, program in attempts if program), NO_ANSWER
    )


def _with_function(head: Head, blocks: list[str]) -> str | None:
    """The prompt and the last block that defines the entry point, with the definitions that earlier
    blocks hold.
    """
    for place in reversed(range(len(blocks))):
        code = next(
            filter(None, (_defining(head.entry_point, start) for start in _starts(blocks[place]))),
            None,
        )
        if code:
            earlier = [block for block in blocks[:place] if _only_defines(block)]
            return _join(head.runnable, [*earlier, code])
    return None


def _starts(code: str) -> Iterator[str]:
    """Readings of `code`: as it is, without common indentation, and from its first line that only
    code has.
    """
    yield code
    yield textwrap.dedent(code)
    first = _CODE_LINE.search(code)
    if first:
        yield code[first.start() :]


def _defining(entry_point: str, code: str) -> str | None:
    """The longest beginning of `code` that parses, if it defines `entry_point` at the top."""
    kept = _longest_beginning("", code)
    return kept if any(_defines(node, entry_point) for node in _top(kept)) else None


def _defines(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _only_defines(code: str) -> bool:
    top = _top(code)
    return bool(top) and all(isinstance(node, _DEFINITIONS) for node in top)


def _with_body(head: Head, blocks: list[str]) -> str | None:
    """The prompt continued by the last block that is its function's body, in the indentation that
    saves most of its lines.
    """
    for block in reversed(blocks):
        bodies = [
            kept
            for body in _indentations(block)
            if _is_body(head, kept := _longest_beginning(head.prompt, body))
        ]
        if bodies:
            return _join(head.prompt, [max(bodies, key=lambda body: body.count("\n"))])
    return None


def _indentations(code: str) -> Iterator[str]:
    """Readings of `code` as a body: as it is, its first line indented (it was stripped), behind a
    paragraph of prose, and all indented.
    """
    code = code.strip("\n")
    yield code
    yield f"    {code}"
    prose = _PROSE_BEFORE_BODY.match(code)
    if prose and not _CODE_LINE.search(
        prose[0]
    ):  # the body of another or a broken function is not ours to graft
        yield code[prose.end() :]
    around = "def _():\n" if code[:1].isspace() else ""
    yield textwrap.indent(textwrap.dedent(_longest_beginning(around, code)), "    ")


def _is_body(head: Head, code: str) -> bool:
    """Whether `code` behind the prompt ends up inside its function and gives a result there, rather
    than at the top level.
    """
    top = _top(head.prompt + code)
    functions = [
        n
        for n in top
        if isinstance(n, ast.FunctionDef)
        and n.name == head.entry_point
        and n.lineno <= head.num_lines
    ]
    if not functions or any(isinstance(node, ast.Return) for node in _own_results(top)):
        return False
    return any(node.lineno > head.num_lines for node in _own_results(functions[-1].body))


def _own_results(
    statements: Iterable[ast.AST],
) -> Iterator[ast.Return | ast.Yield | ast.YieldFrom | ast.Raise]:
    """Nodes that end or yield from the scope of `statements`.

    Functions and classes inside it are scopes of their own.
    """
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom | ast.Raise):
            yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _verbatim(head: Head, blocks: list[str]) -> str | None:
    return _join(head.runnable, blocks[-1:]) if blocks else None


def _join(prompt: str, codes: list[str]) -> str:
    """One program: the prompt, then `codes` without idle statements.

    `from __future__` imports, which must be first, go to the front.
    """
    program = prompt + "\n\n".join(codes).rstrip() + "\n"
    added = [node for node in _top(program) if node.lineno > prompt.count("\n")]
    lines = program.split("\n")
    front = [lines[node.lineno - 1] for node in added if _is_future(node)]
    dropped = {
        line
        for node in added
        if _is_future(node) or _is_idle(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return "\n".join(
        front + [line for number, line in enumerate(lines, start=1) if number not in dropped]
    )


def _is_future(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and node.lineno == node.end_lineno
    )


def _is_idle(node: ast.stmt) -> bool:
    """Whether a top-level statement is a stray expression (a word of prose that parses) or a main
    guard, which tests do not enter.
    """
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Call)
    return isinstance(node, ast.If) and any(
        isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test)
    )


def _longest_beginning(before: str, code: str) -> str:
    """The longest run of first lines of `code` that parses behind `before` and ends between
    top-level statements; empty if there is none.

    Prose behind code, and a last statement that was cut off, are errors from their first line on.
    An error on an indented line lies inside a function, which is then left out as a whole: half a
    function could pass the tests that the real one would fail.
    """
    lines, num_before = code.split("\n"), before.count("\n")
    while lines:
        error = _syntax_error(before + "\n".join(lines))
        if error is None:
            break
        end = max(0, min(error - 1 - num_before, len(lines) - 1))
        while end and (not lines[end] or lines[end][0].isspace()):
            end -= 1
        lines = lines[:end]
    return "\n".join(lines)


def _top(code: str) -> list[ast.stmt]:
    tree = _parse(code)
    return tree.body if tree else []


def _parse(code: str) -> ast.Module | None:
    """The syntax tree of `code`, or None if it has none."""
    parsed = _parse_or_error(code)
    return parsed if isinstance(parsed, ast.Module) else None


def _syntax_error(code: str) -> int | None:
    """Number of the line, from 1, at which `code` stops being Python.

    0 if it cannot be parsed at all, None if all of it parses.
    """
    parsed = _parse_or_error(code)
    return parsed if isinstance(parsed, int) else None


def _parse_or_error(code: str) -> ast.Module | int:
    with (
        warnings.catch_warnings()
    ):  # an invalid escape in the model's code is not worth a warning, nor an error under -W error
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except SyntaxError as error:
            return error.lineno or 0
        except (
            ValueError,
            OverflowError,
            RecursionError,
            MemoryError,
        ):  # null bytes, lone surrogates, nesting beyond the parser's depth
            return 0
