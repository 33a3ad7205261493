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
from typing import TypeGuard

from pipeline.tasks import NO_ANSWER, Answer
from pipeline.tasks._reasoning import visible

_FENCE = re.compile(r"(```|~~~)[ \t]*([\w+.#-]*)[^\n`]*\n(.*?)(?:\1|\Z)", re.DOTALL)
"""A fenced block: its mark, its tag, its code, up to the end of a text that was cut off."""
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
        is_whole = isinstance(_parse(self.prompt), ast.Module)
        return self.prompt if is_whole else f"{self.prompt}    pass\n"


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
    fenced = [(tag.lower(), code) for _, tag, code in _FENCE.findall(text)]
    blocks = [code for tag, code in fenced if tag in _PYTHON_TAGS and code.strip()]
    unfenced = [_FENCE.split(text, maxsplit=1)[0]]
    for rule, read, codes in (
        ("function", _with_function, blocks),
        ("unfenced_function", _with_function, unfenced),
        ("body", _with_body, blocks),
        ("unfenced_body", _with_body, unfenced),
        ("verbatim", _verbatim, blocks),
    ):
        if program := read(head, codes):
            return Answer(answer=program, rule=rule)
    return NO_ANSWER


def _with_function(head: Head, blocks: list[str]) -> str | None:
    """The prompt, the last block that defines the entry point, and earlier blocks' definitions."""
    for number in reversed(range(len(blocks))):
        for start in _starts(blocks[number]):
            code = _longest_beginning("", start)
            if any(_is_function(node, head.entry_point) for node in _top(code)):
                earlier = [block for block in blocks[:number] if _only_defines(block)]
                return _join(head.runnable, [*earlier, code])
    return None


def _starts(code: str) -> Iterator[str]:
    """`code` as it is, without common indentation, and from its first line that only code has."""
    yield code
    yield textwrap.dedent(code)
    if first := _CODE_LINE.search(code):
        yield code[first.start() :]


def _is_function(node: ast.stmt, name: str) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _only_defines(code: str) -> bool:
    top = _top(code)
    return bool(top) and all(isinstance(node, _DEFINITIONS) for node in top)


def _with_body(head: Head, blocks: list[str]) -> str | None:
    """The prompt and the last block that is a body, in the indentation that saves most lines."""
    for block in reversed(blocks):
        readings = [_longest_beginning(head.prompt, body) for body in _indentations(block)]
        bodies = [body for body in readings if _is_body(head, body)]
        if bodies:
            return _join(head.prompt, [max(bodies, key=lambda body: body.count("\n"))])
    return None


def _indentations(code: str) -> Iterator[str]:
    """`code` as it is, its first line indented, from behind a paragraph, and all indented."""
    code = code.strip("\n")
    yield code
    yield f"    {code}"
    prose = _PROSE_BEFORE_BODY.match(code)
    # The body of another or a broken function is not ours to graft.
    if prose and not _CODE_LINE.search(prose[0]):
        yield code[prose.end() :]
    around = "def _():\n" if code[:1].isspace() else ""
    yield textwrap.indent(textwrap.dedent(_longest_beginning(around, code)), "    ")


def _is_body(head: Head, code: str) -> bool:
    """Whether `code` behind the prompt gives a result inside its function, and none at the top."""
    top = _top(head.prompt + code)
    named = [node for node in top if _is_function(node, head.entry_point)]
    functions = [function for function in named if function.lineno <= head.num_lines]
    if not functions or any(isinstance(node, ast.Return) for node in _own_results(top)):
        return False
    return any(node.lineno > head.num_lines for node in _own_results(functions[-1].body))


def _own_results(statements: Iterable[ast.AST]) -> Iterator[ast.stmt | ast.expr]:
    """Nodes that end or yield from the scope of `statements`, scopes inside it left out."""
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
    """The prompt and `codes` without idle statements, imports from `__future__` at the front."""
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
    kept = [line for number, line in enumerate(lines, start=1) if number not in dropped]
    return "\n".join(front + kept)


def _is_future(node: ast.stmt) -> bool:
    is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return is_future and node.lineno == node.end_lineno


def _is_idle(node: ast.stmt) -> bool:
    """Whether `node` is a stray expression (a word of prose) or a main guard, never entered."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Call)
    return isinstance(node, ast.If) and any(
        isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test)
    )


def _longest_beginning(before: str, code: str) -> str:
    """The most first lines of `code` that parse behind `before`, up to a top-level statement.

    Prose behind code, and a last statement that was cut off, are errors from their first line on.
    An error on an indented line lies inside a function, which is then left out as a whole: half a
    function could pass the tests that the real one would fail.
    """
    lines, num_before = code.split("\n"), before.count("\n")
    while lines and isinstance(error := _parse(before + "\n".join(lines)), int):
        end = max(0, min(error - 1 - num_before, len(lines) - 1))
        while end and (not lines[end] or lines[end][0].isspace()):
            end -= 1
        lines = lines[:end]
    return "\n".join(lines)


def _top(code: str) -> list[ast.stmt]:
    """The top-level statements of `code`, none if it does not parse."""
    tree = _parse(code)
    return tree.body if isinstance(tree, ast.Module) else []


def _parse(code: str) -> ast.Module | int:
    """The tree of `code`, or the line, from 1, at which it stops being Python; 0 for all of it."""
    # An invalid escape in the model's code is not worth a warning, nor an error under -W error.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except SyntaxError as error:
            return error.lineno or 0
        except (ValueError, OverflowError, RecursionError, MemoryError):
            return 0  # null bytes, lone surrogates, nesting beyond the parser's depth
