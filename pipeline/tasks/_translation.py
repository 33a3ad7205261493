"""Machine translation out of English, for all target languages, and how a translation is read."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from pipeline.core.records import Item
from pipeline.tasks import NO_ANSWER, Answer, Prompt, Source, Style, Task
from pipeline.tasks._reasoning import visible
from pipeline.tasks._rows import Row

_QUOTES = {
    **{mark: mark for mark in "\"'`"},
    **{"„": "“”", "“": "”“", "”": "”", "‚": "‘’", "‘": "’", "’": "’"},
    **{"«": "»", "»": "«»", "›": "‹", "‹": "›"},
}
"""Opening mark -> marks that may close it, in English, German, Czech and Finnish typesetting."""
_MARKS = frozenset("".join(_QUOTES) + "".join(_QUOTES.values()))
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_EMPHASIS = re.compile(r"(\*{1,3}|_{1,3})(?=\S)(.+)(?<=\S)\1", re.DOTALL)
_PREAMBLE = r"""\A[\s*_\#>]{{0,9}} (?:
    (?:sure(?:\ thing)?|certainly|of\ course|absolutely) [!.,]+ (?=\s|\Z)  # Sure!
  | (?:sure|certainly|of\ course|okay|ok) [!.,]* [ ]* (?:\n|\Z)
  | (?:sure|certainly|of\ course|okay|ok|here|below|the|this)\b [^\n:]{{0,80}}?
        (?:translat\w{{1,5}}|\b{language}\b) [^\n:]{{0,80}} :              # Here is the German:
  | here\b [^\n:]{{0,60}} : [*_]{{0,3}} [ ]* (?:\n|\Z)                     # Here you go:
  | English [*_]{{0,3}} : [^\n]* \s+ (?={language}[*_]{{0,3}}:)            # English: ...
  | (?:(?:in|into|to)\ )?{language}(?:[ ]translation)? [*_]{{0,3}}
        (?: : | [ ]*\n )                                                   # German:
  | translat\w{{1,5}}\b [^\n:]{{0,40}} :                                   # Translation:
) (?:(?<=:)[*_]{{1,3}})? \s*"""
"""What models write before the translation that cannot be part of one, as it is English."""
_NATIVE_PREAMBLE = re.compile(
    r"""\A[\s*_\#>]{0,9} (?:\w{1,20}(?:\ \w{1,10})?[!.,]\s+)? (?:
        (?:hier\ ist\ )?(?:die\ )?(?:deutsche\ )?übersetzung\b [^\n:.!?]{0,40}
      | (?:auf\ )?deutsch
      | (?:tässä\ (?:on\ )?)?(?:suomenkielinen\ |lauseen\ |tekstin\ )?
        (?:käännös|suomennos)\b [^\n:.!?]{0,40}
      | (?:lause\ |teksti\ )?suomeksi(?:\ on)?
      | (?:(?:zde|tady)\ je\ )?(?:český\ )?překlad\b [^\n:.!?]{0,40}
      | česky | čeština | v\ češtině
    ) [*_]{0,3} : [*_]{0,3} (?P<rest>\s*)""",
    re.VERBOSE | re.IGNORECASE,
)
"""The same in the target language."""
_SEQUEL = (
    r"\n[ \t]*[-*_]{{3,}}[ \t]*(?:\n|\Z)"
    r"|\n[\s*_#(]{{0,9}}(?:English|{language}|Translate|Note|Notes|Explanation"
    r"|Anmerkung|Hinweis|Erklärung|Huom|Huomautus|Selitys|Poznámka|Vysvětlení)\b[^\n:]{{0,60}}:"
)
"""A rule, or a line that goes on to something else: an invented next text, or remarks."""


def newstest(
    year: str,
    pair: str,
    licence: str = "not stated on the Hub; WMT news test sets are given for research",
) -> Source:
    """The test split of a `pair`, named alike for both directions, of WMT's `year` (`wmt16`)."""
    url = f"https://huggingface.co/datasets/wmt/{year}"
    return Source(dataset=f"wmt/{year}", config=pair, split="test", url=url, licence=licence)


class EnglishTo(Task):
    """WMT news translation out of English; a language pair is a subclass."""

    language: ClassVar[str]
    """English name of the target language, as the prompt gives it."""
    code: ClassVar[str]
    """Key of the target language in the Hub's rows."""
    num_rows: ClassVar[int | None] = None
    """Rows that are asked, from the first on; None asks all."""

    version = 3
    styles: ClassVar[Mapping[str, Style]] = {
        "zero_shot": Style(kind="text", metrics=("bleu", "chrf"), max_tokens=256)
    }
    chance = 0.0

    def items(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        """Items for the first `num_rows` of `rows`."""
        return super().items(islice(rows, self.num_rows))

    def item(self, row: Row, split: str) -> Item:
        """The pair of texts in `row`, by language key, as their order differs between pairs."""
        pair = row.mapping("translation")
        reference = pair.text(self.code).strip()
        return Item(
            task=self.name,
            item_id=row.item_id(split),
            group="",
            fields={"source": pair.text("en").strip()},
            options=[],
            target=reference,
            references=[reference],
        )

    def prompt(self, item: Item, shots: Sequence[Item] = ()) -> Prompt:
        """The instruction, the source, and the language's name as in Figure 10 of the paper."""
        instruction = f"Translate the following English text to {self.language}."
        user = f"{instruction}\nEnglish: {item.fields['source']}"
        return Prompt(system="", user=user, prefill=f"{self.language}:")

    def extract(self, item: Item, text: str) -> Answer:
        """The translation in `text`, on one line."""
        return read_translation(text, item.fields["source"], self.language)

    def gold_output(self, item: Item) -> str:
        """The reference, as it continues the prefill.

        25 references of WMT16's en-fi and en-cs are quotations where the source is none. Their
        marks would be taken for the model's, so they stand in a further pair.
        """
        plain = f" {item.target}"
        return plain if self.extract(item, plain).answer == item.target else f' "{item.target}"'


def read_translation(text: str, source: str, language: str) -> Answer:
    """The translation into `language` of the English `source` that `text` gives, or `NO_ANSWER`.

    It is the first block of lines that are not empty, joined by spaces, and ends where the model
    goes on to something else. Fences, a preamble (`Here is the translation:`), a repeated label,
    emphasis and quotation marks around the whole are removed; the rule names what was. What the
    source has too belongs to the translation: marks stay if it begins or ends with one, and
    `Käännös: ...` if it has a colon.
    """
    whole = _FENCE.sub("", visible(text)).strip()
    body = _without_preamble(whole, source, language)
    sequel = re.compile(_SEQUEL.format(language=language), re.IGNORECASE)
    line = _first_block(sequel.split(body, maxsplit=1)[0])
    bare = line if source[:1] in _MARKS or source[-1:] in _MARKS else _without_quotes(line)
    rule = "preamble" if body != whole else "quotes" if bare != line else "first_block"
    return Answer(answer=bare, rule=rule) if bare else NO_ANSWER


def _without_preamble(text: str, source: str, language: str) -> str:
    """`text` from where the translation of `source` begins."""
    english = re.compile(_PREAMBLE.format(language=language), re.VERBOSE | re.IGNORECASE)
    while preamble := english.match(text) or _native_preamble(text, source):
        text = text[preamble.end() :].strip()
    return text


def _native_preamble(text: str, source: str) -> re.Match[str] | None:
    """The preamble of `text` in the target language, if it cannot be a heading of `source`'s."""
    preamble = _NATIVE_PREAMBLE.match(text)
    is_own = preamble and (":" not in source or "\n" in preamble["rest"])
    return preamble if is_own else None


def _first_block(text: str) -> str:
    """The first run of lines that are not empty, as one line without emphasis."""
    block = re.split(r"\n[ \t]*\n", text.strip(), maxsplit=1)[0]
    line = " ".join(part.strip().removeprefix("> ") for part in block.split("\n")).strip()
    emphasised = _EMPHASIS.fullmatch(line)
    return emphasised[2] if emphasised else line


def _without_quotes(line: str) -> str:
    """`line` without the quotation marks around it; of two pairs the inner one is its own."""
    quoted = _is_quotation(line) or (_is_between_marks(line) and _is_quotation(line[1:-1]))
    return line[1:-1].strip() if quoted else line


def _is_quotation(line: str) -> bool:
    """Whether `line` is one quotation: marks inside mean that those at its ends belong to two."""
    return _is_between_marks(line) and not _MARKS.intersection(line[1:-1]) - {"'", "’"}


def _is_between_marks(line: str) -> bool:
    return len(line) > 1 and line[-1] in _QUOTES.get(line[0], "")
