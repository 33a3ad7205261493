"""Which translation is read out of an output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import tasks
from pipeline.errors import DataError
from pipeline.tasks import Source
from pipeline.tasks._translation import EnglishTo, read_translation

TASK = tasks.get("wmt16_en_de")
SOURCE, GERMAN = "The dog is asleep.", "Der Hund schläft."


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f" {GERMAN}", "first_block"),
        (f"\n\n{GERMAN}\n\nThis is a plain sentence.", "first_block"),
        ("Der Hund\nschläft.", "first_block"),
        (f"{GERMAN}\nEnglish: The cat is awake.\nGerman: Die Katze ist wach.", "first_block"),
        (f"{GERMAN}\n\nEnglish: The cat is awake.", "first_block"),
        (f"{GERMAN}\nNote: `schläft` means sleeps.", "first_block"),
        (f"{GERMAN}\n(Note: literally, sleeps.)", "first_block"),
        (f"```\n{GERMAN}\n```", "first_block"),
        (f"```text\n{GERMAN}\n```\n\nExplanation", "first_block"),
        (f"**{GERMAN}**", "first_block"),
        (f"<think>Dog is Hund.</think>\n\n{GERMAN}", "first_block"),
        (f"{GERMAN}<end_of_turn>", "first_block"),
        (f"{GERMAN}\r\n\r\nThat is all.", "first_block"),
        (f"Here is the translation:\n\n{GERMAN}", "preamble"),
        (f'Sure! Here\'s the German translation: "{GERMAN}"', "preamble"),
        (f"Sure!\n{GERMAN}", "preamble"),
        (f"Certainly! Here is the translation into German:\n\n> {GERMAN}", "preamble"),
        (f"The German translation of the text is:\n\n**{GERMAN}**", "preamble"),
        (f"Hier ist die Übersetzung: {GERMAN}", "preamble"),
        (f"German: {GERMAN}", "preamble"),
        (f"**German:** {GERMAN}", "preamble"),
        (f"Translation: {GERMAN}", "preamble"),
        (f"English: The dog is asleep.\nGerman: {GERMAN}", "preamble"),
        (f'"{GERMAN}"', "quotes"),
        (f"„{GERMAN}“", "quotes"),
        (f"»{GERMAN}«", "quotes"),
        (f"'{GERMAN}'", "quotes"),
    ],
)
def test_the_translation_is_found(text: str, rule: str) -> None:
    assert read_translation(text, SOURCE, "German") == tasks.Answer(answer=GERMAN, rule=rule)


@pytest.mark.parametrize("text", ["", " \n\n", '""', "```\n```", "Here is the translation:", "<think>Der Hund", "German:", "<end_of_turn>"])
def test_an_empty_translation_is_no_answer(text: str) -> None:
    assert read_translation(text, SOURCE, "German") == tasks.NO_ANSWER


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ('"I sleep."', '"Ich schlafe."'),  # the marks are the text's own
        ('He said, "Yes."', '"Ja", sagte er, "ja."'),
        ("Speech and reply", '"Ja", sagte er, "nein"'),  # two quotations, not one around the whole
        ("German cars: a report", "Deutsche Autos: ein Bericht"),
        ("Note: closed today", "Hinweis: heute geschlossen"),
        ("The Times: a new owner", "The Times: ein neuer Eigentümer"),
        ("It costs 5*", "Es kostet 5*"),
    ],
)
def test_what_belongs_to_the_text_stays(source: str, translation: str) -> None:
    assert read_translation(f" {translation}", source, "German").answer == translation


@given(st.text(), st.text(max_size=20))
def test_any_text_gives_one_line_or_no_answer(text: str, source: str) -> None:
    answer = read_translation(text, source, "German")
    assert "\n" not in answer.answer
    assert (answer.answer == "") == (answer == tasks.NO_ANSWER)


def test_the_prompt_is_the_papers() -> None:
    [item] = TASK.items([{"translation": {"de": GERMAN, "en": SOURCE}}])
    user = "Translate the following English text to German.\nEnglish: The dog is asleep."
    assert TASK.prompt(item) == tasks.Prompt(system="", user=user, prefill="German:")
    assert item.references == [GERMAN]


def test_texts_are_taken_by_language_whatever_their_order() -> None:
    rows = [{"translation": {"de": GERMAN, "en": SOURCE}}, {"translation": {"en": SOURCE, "de": GERMAN}}]
    first, second = TASK.items(rows)
    assert (first.fields, first.target) == (second.fields, second.target) == ({"source": SOURCE}, GERMAN)


def test_equal_sources_are_different_items() -> None:
    first, second = TASK.items([{"translation": {"de": GERMAN, "en": SOURCE}}] * 2)
    assert first.item_id != second.item_id


def test_another_language_is_a_subclass() -> None:
    class EnglishFinnish(EnglishTo):
        name = "en_fi"
        title = "en-fi"
        source = Source(dataset="wmt/wmt16", config="fi-en", split="test", url="", licence="CC BY 4.0")
        language = "Finnish"
        code = "fi"

    task = EnglishFinnish()
    [item] = task.items([{"translation": {"en": SOURCE, "fi": "Koira nukkuu."}}])
    assert task.prompt(item).prefill == "Finnish:"
    assert task.extract(item, "Here is the Finnish translation: Koira nukkuu.").answer == "Koira nukkuu."


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "no column 'translation'"),
        ({"translation": GERMAN}, "column 'translation': expected a mapping of texts"),
        ({"translation": {"de": GERMAN}}, "no column 'en'; the row has: de"),
        ({"translation": {"de": "", "en": SOURCE}}, "column 'de': expected a text that is not empty"),
        ({"translation": {"de": GERMAN, "en": None}}, "column 'en': expected a text that is not empty"),
    ],
)
def test_a_bad_row_is_named_with_what_was_expected(row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=rf"task 'wmt16_en_de', row 0.*{message}"):
        list(TASK.items([row]))
