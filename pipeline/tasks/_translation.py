"""Machine translation out of English: one class for all target languages, and how a translation is read out of an output."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pipeline.records import Item
from pipeline.tasks import NO_ANSWER, Answer, Prompt, Task
from pipeline.tasks._reasoning import visible
from pipeline.tasks._rows import Row, checked

_QUOTES = {'"': '"', "'": "'", "„": "“”", "“": "”“", "”": "”", "«": "»", "»": "«", "‘": "’", "‚": "‘’", "`": "`"}
"""Opening mark -> marks that may close it, in English, German, Czech and Finnish typesetting."""
_MARKS = frozenset("".join(_QUOTES) + "".join(_QUOTES.values()))
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_EMPHASIS = re.compile(r"(\*{1,3}|_{1,3})(?=\S)(.+)(?<=\S)\1", re.DOTALL)
_PREAMBLE = r"""\A[\s*_\#>]{{0,9}} (?:
    (?:sure|certainly|of\ course|okay|ok) [!.,]* [ ]* (?:\n|\Z)                                # Sure!
  | (?:sure|certainly|of\ course|okay|ok|here|below|the|this|hier)\b [^\n:]{{0,80}}?
        (?:translat\w{{1,5}}|übersetzung|\b{language}\b) [^\n:]{{0,80}} :                      # Here is the German translation:
  | English [*_]{{0,3}} : [^\n]* \s+ (?={language}[*_]{{0,3}}:)                               # English: ..., the source again
  | (?:{language}(?:[ ]translation)?|translation) [*_]{{0,3}} :                              # German:
) (?:(?<=:)[*_]{{1,3}})? \s*"""
_SEQUEL = r"\n[\s*_#(]{{0,9}}(?:English|{language}|Translate|Note|Notes|Explanation)\b[^\n:]{{0,60}}:"
"""A line that goes on to something else: an invented next text, or remarks on the translation."""


class EnglishTo(Task):
    """WMT news translation out of English; a language pair is a subclass that sets `name`, `title`, `source`, `language` and `code`."""

    language: ClassVar[str]
    """English name of the target language, as the prompt gives it."""
    code: ClassVar[str]
    """Key of the target language in the Hub's rows."""

    version = 1
    kind = "text"
    metrics = ("bleu", "chrf")
    max_tokens = 256
    chance = 0.0

    def items(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        """Items in the Hub's order. Texts are taken by language key, since the Hub's order of the two differs between pairs."""
        return (self._item(row) for row in checked(self.name, rows))

    def _item(self, row: Row) -> Item:
        pair = row.mapping("translation")
        reference = pair.text(self.code).strip()
        return Item(
            task=self.name,
            item_id=row.item_id(self.source.split),
            group="",
            fields={"source": pair.text("en").strip()},
            options=[],
            target=reference,
            references=[reference],
        )

    def prompt(self, item: Item) -> Prompt:
        """The instruction and the source; the assistant's turn begins with the language's name (Figure 10 of the paper)."""
        user = f"Translate the following English text to {self.language}.\nEnglish: {item.fields['source']}"
        return Prompt(system="", user=user, prefill=f"{self.language}:")

    def extract(self, item: Item, text: str) -> Answer:
        """The translation in `text`, on one line."""
        return read_translation(text, item.fields["source"], self.language)

    def gold_output(self, item: Item) -> str:
        """The reference, as it continues the prefill."""
        return f" {item.target}"


def read_translation(text: str, source: str, language: str) -> Answer:
    """The translation into `language` of the English `source` that `text` gives, or `NO_ANSWER`.

    It is the first block of lines that are not empty, joined by spaces, and ends where the model goes on to something else. Fences, a
    preamble (`Here is the translation:`), a repeated label, emphasis and quotation marks around the whole are removed; the rule names what
    was. Marks stay if the source begins or ends with one too, for then they belong to the translation.
    """
    whole = _FENCE.sub("", visible(text)).strip()
    body = _without_preamble(whole, language)
    line = _first_block(re.split(_SEQUEL.format(language=language), body, maxsplit=1, flags=re.IGNORECASE)[0])
    bare = line if source[:1] in _MARKS or source[-1:] in _MARKS else _without_quotes(line)
    rule = "preamble" if body != whole else "quotes" if bare != line else "first_block"
    return Answer(answer=bare, rule=rule) if bare else NO_ANSWER


def _without_preamble(text: str, language: str) -> str:
    """`text` from where the translation begins."""
    preamble = re.compile(_PREAMBLE.format(language=language), re.VERBOSE | re.IGNORECASE)
    while found := preamble.match(text):
        text = text[found.end() :].strip()
    return text


def _first_block(text: str) -> str:
    """The first run of lines that are not empty, as one line without emphasis."""
    block = re.split(r"\n[ \t]*\n", text.strip(), maxsplit=1)[0]
    line = " ".join(part.strip().removeprefix("> ") for part in block.split("\n")).strip()
    emphasised = _EMPHASIS.fullmatch(line)
    return emphasised[2] if emphasised else line


def _without_quotes(line: str) -> str:
    """`line` without quotation marks around the whole of it; marks inside mean that the outer ones are two quotations."""
    wrapped = len(line) > 1 and line[-1] in _QUOTES.get(line[0], "") and not _MARKS.intersection(line[1:-1]) - {"'", "’"}
    return line[1:-1].strip() if wrapped else line
