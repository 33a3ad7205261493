r"""Which label a text states: `The answer is B.`, `\boxed{B}`, `**Answer:** (b)`, `B) because`.

A letter counts only where it cannot be a word, a name or part of one: `a` and `A` before a word are
articles, `I` is a pronoun, `B. F.` are initials, and `B-cells`, `C++` or `A/B` are no labels.
Several labels at once (`A or B`, `(A) and (B)`, `A, B`) are a hedge and state none of them; `B and
not A` states B. Not covered: an option's text without its label, which the prompts do not ask for.
"""

import re

from pipeline.tasks import LETTERS, NO_ANSWER, Answer
from pipeline.tasks._reasoning import visible

_WRAPPING = r"""(?:[\s:*_`$(\[{<"'“‘„]|\\[(\[]){0,12}"""
"""What may stand between `answer is` and the label, and before a label that begins a line."""
_LABEL = r"(?P<label>[A-Za-z])(?![^\W_]|[+#]|['’/_–-][^\W_])"
_MARKUP = r"\\(?:boxed|text|textbf|mathrm|mathbf)"
_STATED = re.compile(
    rf"""(?: (?P<is> \b(?:answer|option|choice)
                     (?: \s+(?:to|for|of)\s[^.\n:]{{1,80}}? | ,[^,.\n]{{1,20}}, )?
                     \s+ (?:is|(?:would|should|must|will)\ be)\b
                     (?: [\s,:*_]{{1,6}}
                         (?:\w{{1,20}}ly|therefore|thus|hence|indeed|then|still|now)\b,? )? )
        | (?P<colon> \b(?:answer|option|choice) [\s*_`]{{0,6}} [:=→–-] )
        | (?P<heading> ^[\s*_\#>]{{0,9}} (?:the\s+)? (?:(?:final|correct|best|right)\s+)?
                       answer (?=[\s*_]) )
        | (?P<boxed> \\boxed\s{{0,3}}\{{ ) )
    {_WRAPPING} (?: {_MARKUP}\s{{0,3}}\{{ {_WRAPPING} ){{0,3}}
    (?: (?:the\s+)? (?:option|choice|letter)\b {_WRAPPING} )?
    (?-i:{_LABEL})""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
"""A statement of the answer; groups tell its form."""
_CONFIRMED = re.compile(
    rf"(?<![^\W_])(?<![Ss]tatement ){_LABEL}[)*_.:\"'`]{{0,6}}"
    r"\s+is\s+(?:the\s+)?(?:most\s+)?(?:correct|right|best)\b"
)
"""`B is the correct answer`, `Option B is correct`."""
_LAST_LINE = re.compile(rf"""(?:\A|\n){_WRAPPING}{_LABEL}[)\]}}*_`.$>"'”’\s]*\Z""")
_LEADING = re.compile(rf"\A{_WRAPPING}{_LABEL}")
_RULES = {"stated": _STATED, "confirmed": _CONFIRMED, "last_line": _LAST_LINE, "leading": _LEADING}
_LISTED = re.compile(rf"^[^\S\n]*[*_(\[-]{{0,4}}[ ]?{_LABEL}[*_]{{0,3}}[).:\]]", re.MULTILINE)
"""The label of a line that lists an option, as in `B. text`."""

_ENDS = re.compile(r"""[)\]}*_`$>"'”’]*(?:[.,:;!]|\s*(?:\n|\Z))|[)\]}*_`$>"'”’]+""")
"""Punctuation, markup or the end of the line, behind a small letter that is a label."""
_WORD = re.compile(
    r"[^\S\n]+(?!(?:is|because|since|as|and|or|for|due|which|while|being|based|given)\b)[a-z]"
)
"""A word behind `A` or `I` that makes an article or a pronoun of it."""
_ABBREVIATION = re.compile(r"\.[^\S\n]?[A-Z]\.[^\S\n]?[A-Z]\w|\.[a-z]\.")
"""The rest of `B. F. Skinner` or `e.g.`."""
_REFUTED = re.compile(r"[)*_]*[^\S\n]+(?:is|was|cannot)\b")
"""What follows `Answer B` where it is talked about, not given."""

_HEDGE = re.compile(
    rf"""(?<![^\W_]) (?P<label>[A-Za-z]) (?= [)\]}}*_`$>"'”’\\]{{0,8}}
        (?: (?P<either> ,?\s{{1,3}}(?:and/or|or|nor)\s | [^\S\n]{{0,3}}[/&] )
          | (?P<list> ,?\s{{1,3}}and\s | [^\S\n]{{0,3}}, (?:\s{{0,3}}and\s)? ) )
        (?: [\s(\[{{*_`$<"'“‘„] | {_MARKUP}\s?\{{ | \\[(\[] ){{0,8}}
        (?: (?:option|choice|answer)\s [\s(\[*_`"]{{0,6}} )?
        (?P<other>[A-Za-z]) (?![^\W_]|[+#]|['’_–-][^\W_]) )""",
    re.VERBOSE,
)
"""Two labels in one breath; the second is looked ahead at, so that it may begin the next pair."""
_CLAUSE = re.compile(
    r"""[)*_]*[^\S\n]+
        (?: and[^\S\n]+[A-Z][)*_]*[^\S\n]+(?:are|were)\b
          | (?:is|isn['’]t|was|being|cannot|can|could|does|doesn['’]t|would|has|seems|looks
              |must|should|will|may|might|fails)\b )""",
    re.VERBOSE,
)
"""The next clause behind `C`, as in `B, C is too hot` or `B, and C and D are too hot`."""


def read_label(text: str, num_options: int) -> Answer:
    r"""The label that `text` states among the first `num_options` letters, or `NO_ANSWER`.

    The last statement wins (`stated`: `answer is B`, `Answer: B`; `boxed`: `\boxed{B}`), or else
    the last of the kind `B is the correct answer` (`confirmed`), or else a last line that is
    nothing but a label (`last_line`), or else the label with which the text begins (`leading`),
    unless it begins a list of options. Labels of a hedge state nothing. Reasoning blocks before the
    answer are dropped.
    """
    text, allowed = visible(text), LETTERS[:num_options]
    hedged = _hedged(text, allowed)
    for rule, pattern in _RULES.items():
        labels = [
            label
            for label in pattern.finditer(text)
            if label.start("label") not in hedged and _is_label(label, allowed)
        ]
        if labels and not (rule == "leading" and _lists_options(text)):
            rule = "boxed" if _form(labels[-1]) == "boxed" else rule
            return Answer(answer=labels[-1]["label"].upper(), rule=rule)
    return NO_ANSWER


def _is_label(match: re.Match[str], allowed: str) -> bool:
    """Whether the letter matched is one of `allowed`, and no word or name."""
    letter, end, form = match["label"], match.end("label"), _form(match)
    if letter.upper() not in allowed or _ABBREVIATION.match(match.string, end):
        return False
    if form == "heading" and _REFUTED.match(match.string, end):
        return False
    if letter.islower():
        return bool(_ENDS.match(match.string, end))
    # In mid-sentence a capital A is no article, but `the answer is I think B` has its pronoun.
    is_word_like = letter == "I" or (letter == "A" and form != "is")
    return not (is_word_like and _WORD.match(match.string, end))


def _hedged(text: str, allowed: str) -> set[int]:
    """Offsets of the letters in `text` that stand beside another label, as both do in `A or B`."""
    pairs = [pair for pair in _HEDGE.finditer(text) if _is_hedge(pair, allowed)]
    return {pair.start(name) for pair in pairs for name in ("label", "other")}


def _is_hedge(pair: re.Match[str], allowed: str) -> bool:
    """Whether both letters are of `allowed`, and the second begins neither a word nor a clause."""
    letter, end = pair["other"], pair.end("other")
    if not {pair["label"].upper(), letter.upper()} <= set(allowed):
        return False
    if letter.islower():
        return bool(_ENDS.match(pair.string, end))
    if letter in "AI" and _WORD.match(pair.string, end):
        return False
    return pair["list"] is None or not _CLAUSE.match(pair.string, end)


def _form(match: re.Match[str]) -> str:
    """The kind of statement that `match` is, by the name of its group."""
    groups = match.groupdict().items()
    return next((name for name, text in groups if text is not None and name != "label"), "")


def _lists_options(text: str) -> bool:
    """Whether lines of `text` begin with several labels, so that the first of them says nothing."""
    return len({line["label"].upper() for line in _LISTED.finditer(text)}) > 1
