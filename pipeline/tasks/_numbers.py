r"""Numbers as models write them, and which one of a worked solution is its answer.

A number may carry a sign before or after a currency mark (`-$5`, `$-5`, `−5`) and separators of
thousands: `,`, LaTeX's `{,}` and `\,`, an apostrophe, a thin, no-break or plain space. It starts
and ends on a digit, so `12.` is 12 and a lone comma is nothing. A hyphen between two numbers is a
range or a difference, not a sign; of a range (`5-7`, `12–15`) the last number counts. Not covered:
ranges in words, number words, scientific notation, mixed fractions, decimal commas.
"""

import re
from decimal import Decimal, localcontext

from pipeline.tasks import NO_ANSWER, Answer
from pipeline.tasks._reasoning import visible

_NUMBER = re.compile(
    r"""(?<![^\W_]) (?<![0-9]\.)               # not inside a name (x2) nor behind a decimal point
    (?P<sign> (?<![)\]%]) (?<![0-9)\]][ ]) [-−] )?    # the minus of a difference (10 -3) is no sign
    (?: [$€£¥] [ ]? )? (?P<late_sign> (?(sign) (?!) | [-−] ) )?
    (?P<digits> [0-9]{1,3} (?: [,'\ \u00a0\u2009\u202f] [0-9]{3} )+ (?![0-9]) (?: \.[0-9]++ )?
              | [0-9]++ (?: \.[0-9]++ )?
              | \.[0-9]++ )""",
    re.VERBOSE,
)
_LATEX = (
    (re.compile(r"\\!|\\(?:left|right)\b"), ""),
    (re.compile(r"\{,\}|\\[,;:]"), ","),
    (re.compile(r"\\[()\[\]]"), " "),  # else the brackets of \( 5 \) would pass for an aside
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"\1/\2"),
    (re.compile(r"\\([$%#])"), r"\1"),
    (re.compile(r"\\times\b|\\cdot\b"), "*"),
)
_NEXT_QUESTION = re.compile(
    r"\bQuestion\s*\d*\W{0,2}:|^\W{0,6}(?:Q|Problem|User|Human)\s*\d*\W{0,2}:", re.MULTILINE
)
_MARKER = re.compile(
    r"""(?P<boxed> \\boxed\s*\{ )
    | (?P<hashes> \#{4} (?= [^\w\n]{0,9} [0-9])
        (?! [^\w\n]{0,9} [0-9]{1,9} [.):] \s+ \S) )         # `#### 1. Eggs` is a Markdown heading
    | (?P<answer> (?i: \banswer [\s*_`]* [:=] ) | ^ \W{0,6} A: )
    | (?P<answer_is> (?i: \banswer
        (?: \s+ (?:to|for|of|in) \s [^.\n:=]{1,80}? )? (?: , [^,.\n]{1,20} , )?
        \s+ (?: is | equals | would\ be | will\ be ) \b ) )""",
    re.VERBOSE | re.MULTILINE,
)
_ASIDE = re.compile(r"\([^()]*\)")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|\n")
_STATEMENT_LENGTH = 200
"""Characters of a statement behind its marker, a bound that keeps degenerate outputs cheap."""
_RANGE = re.compile(r"[-–](?=[$€£¥]?[0-9.])")
"""The dash of `5-7`; dashes between spaces have other uses."""
_SLASH = re.compile(r"\s*/\s*")
_OPERATOR = re.compile(r"\s*[-+*/÷×x−]\s*[($€£¥]*[0-9.]")


def canonical(text: str) -> str | None:
    """The number that `text` is, without separators, currency or idle zeros; None if it is none."""
    return _canonical(_NUMBER.fullmatch(text.strip()))


def read_number(text: str) -> Answer:
    r"""The final answer of a worked solution in canonical form, or `NO_ANSWER`.

    The last statement that holds a number wins: `\boxed{..}`, `####`, `Answer: ..` (also `A: ..` on
    its own line) or `the answer is ..`; the rule is named after it. Without one the last number
    outside brackets counts (`last_number`). Reasoning blocks before the answer are dropped, as is
    everything from a question that the model went on to invent.
    """
    text = _own_solution(_without_latex(visible(text)))
    for marker in reversed(list(_MARKER.finditer(text))):
        if (number := _stated(text, marker)) is not None:
            return Answer(answer=number, rule=str(marker.lastgroup))
    numbers = list(_NUMBER.finditer(_ASIDE.sub(" ", text))) or list(_NUMBER.finditer(text))
    number = _canonical(numbers[-1]) if numbers else None
    return NO_ANSWER if number is None else Answer(answer=number, rule="last_number")


def _without_latex(text: str) -> str:
    for pattern, plain in _LATEX:
        text = pattern.sub(plain, text)
    return text


def _own_solution(text: str) -> str:
    """`text` up to the next question; one before the first number is the given one, restated."""
    number = _NUMBER.search(text)
    cuts = (question.start() for question in _NEXT_QUESTION.finditer(text))
    return text[: next((cut for cut in cuts if number and cut >= number.end()), len(text))]


def _stated(text: str, marker: re.Match[str]) -> str | None:
    """The number that the statement after `marker` gives; None where it is left to the reader."""
    statement = text[marker.end() : marker.end() + _STATEMENT_LENGTH].lstrip(" \t\n*_`:[$")
    end = _closing_brace(statement) if marker.lastgroup == "boxed" else _sentence_end(statement)
    without_asides = _ASIDE.sub(" ", statement[:end])
    statement = without_asides if _NUMBER.search(without_asides) else statement[:end]
    number = _upper_end(statement, _NUMBER.search(statement))
    if number is None or not _OPERATOR.match(statement, number.end()):
        return _canonical(number)
    if "=" in statement:
        return _canonical(_NUMBER.search(statement, statement.rindex("=")))
    return _quotient(statement, number)


def _upper_end(text: str, number: re.Match[str] | None) -> re.Match[str] | None:
    """The second number of the range that `number` begins in `text`; `number` if it begins none."""
    dash = _RANGE.match(text, number.end()) if number else None
    upper = _NUMBER.match(text, dash.end()) if dash else None
    if number is None or upper is None or _decimal(upper) <= _decimal(number):
        return number
    is_difference = text[upper.end() :].lstrip().startswith("=")  # as in `5-7 = -2`
    return number if is_difference else upper


def _closing_brace(text: str) -> int:
    """Where the brace opened before `text` closes; the end of `text` where it never does."""
    depth = 1
    for offset, character in enumerate(text):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return offset
    return len(text)


def _sentence_end(text: str) -> int:
    end = _SENTENCE_END.search(text)
    return end.start() if end else len(text)


def _quotient(text: str, numerator: re.Match[str]) -> str | None:
    """The value of a fraction such as `3/4`; None for other expressions."""
    slash = _SLASH.match(text, numerator.end())
    denominator = _NUMBER.match(text, slash.end()) if slash else None
    if denominator is None or _OPERATOR.match(text, denominator.end()) or not _decimal(denominator):
        return None
    with localcontext() as context:
        context.prec = 28  # no setting of the caller's decides a score
        return _plain(_decimal(numerator) / _decimal(denominator))


def _canonical(number: re.Match[str] | None) -> str | None:
    return _plain(_decimal(number)) if number else None


def _decimal(number: re.Match[str]) -> Decimal:
    """The value, exactly, of a match of `_NUMBER`."""
    digits = re.sub(r"[^0-9.]", "", number["digits"])
    return Decimal(f"-{digits}" if number["sign"] or number["late_sign"] else digits)


def _plain(value: Decimal) -> str:
    """`value` without exponent, idle zeros or a sign on zero."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
