"""Which translation is read out of an output."""

import pytest
from hypothesis import given, strategies as st

from pipeline import tasks
from pipeline.core.errors import DataError
from pipeline.tasks._translation import read_translation

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


FINNISH, CZECH = "Koira nukkuu.", "Pes spí."


@pytest.mark.parametrize(
    ("language", "translation", "text"),
    [
        ("German", GERMAN, f"Übersetzung: {GERMAN}"),
        ("German", GERMAN, f"Deutsche Übersetzung:\n\n{GERMAN}"),
        ("German", GERMAN, f"Sicher! Hier ist die Übersetzung: {GERMAN}"),
        ("German", GERMAN, f"Auf Deutsch: {GERMAN}"),
        ("German", GERMAN, f"**Deutsch:** {GERMAN}"),
        ("German", GERMAN, f"Translation into German: {GERMAN}"),
        ("German", GERMAN, f"In German: {GERMAN}"),
        ("German", GERMAN, f"Absolutely! Here you go:\n\n{GERMAN}"),
        ("German", GERMAN, f"Sure thing! {GERMAN}"),
        ("German", GERMAN, f"# German\n\n{GERMAN}"),
        ("Finnish", FINNISH, f"Tässä on käännös:\n\n{FINNISH}"),
        ("Finnish", FINNISH, f"Tässä käännös suomeksi: {FINNISH}"),
        ("Finnish", FINNISH, f"Suomennos: {FINNISH}"),
        ("Finnish", FINNISH, f"Käännös: ”{FINNISH}”"),
        ("Finnish", FINNISH, f"Suomeksi: {FINNISH}"),
        ("Finnish", FINNISH, f"Here is the Finnish translation: {FINNISH}"),
        ("Finnish", FINNISH, f"**Finnish:** {FINNISH}"),
        ("Czech", CZECH, f"Zde je překlad:\n\n{CZECH}"),
        ("Czech", CZECH, f"Překlad do češtiny: {CZECH}"),
        ("Czech", CZECH, f"Český překlad: „{CZECH}“"),
        ("Czech", CZECH, f"Jistě! Tady je překlad: {CZECH}"),
        ("Czech", CZECH, f"Česky: {CZECH}"),
        ("Czech", CZECH, f"The translation of the text into Czech is: {CZECH}"),
    ],
)
def test_preambles_in_either_language_are_removed(
    language: str, translation: str, text: str
) -> None:
    assert read_translation(text, SOURCE, language) == tasks.Answer(
        answer=translation, rule="preamble"
    )


@pytest.mark.parametrize(
    ("language", "translation", "text"),
    [
        ("German", GERMAN, f"›{GERMAN}‹"),
        ("German", GERMAN, f"‚{GERMAN}‘"),
        ("German", GERMAN, f"«{GERMAN}»"),
        ("Finnish", FINNISH, f"”{FINNISH}”"),
        ("Finnish", FINNISH, f"»{FINNISH}»"),
        ("Finnish", FINNISH, f"’{FINNISH}’"),
        ("Finnish", FINNISH, f'"{FINNISH}"'),
        ("Czech", CZECH, f"„{CZECH}“"),
        ("Czech", CZECH, f"»{CZECH}«"),
        ("Czech", CZECH, f"‚{CZECH}‘"),
    ],
)
def test_the_quotation_marks_of_each_language_are_removed(
    language: str, translation: str, text: str
) -> None:
    assert read_translation(text, SOURCE, language) == tasks.Answer(
        answer=translation, rule="quotes"
    )


@pytest.mark.parametrize(
    ("language", "translation", "remark"),
    [
        ("German", GERMAN, "Anmerkung: wörtlich."),
        ("Finnish", FINNISH, "Huom: sananmukaisesti."),
        ("Finnish", FINNISH, "\n**Selitys:** nukkuu."),
        ("Czech", CZECH, "Poznámka: doslova."),
        ("Czech", CZECH, "---\nThat is all."),
    ],
)
def test_remarks_behind_the_translation_are_removed(
    language: str, translation: str, remark: str
) -> None:
    assert read_translation(f"{translation}\n{remark}", SOURCE, language).answer == translation


@pytest.mark.parametrize(
    ("language", "source", "translation"),
    [
        ("Finnish", "Finland: a new start", "Suomi: uusi alku"),
        ("Finnish", "Translation: an art", "Käännös: taidetta"),
        ("German", "In German: the cars of today", "Auf Deutsch: die Autos von heute"),
        ("German", "The translation, he said: wrong.", "Die Übersetzung, sagte er: falsch."),
        ("Finnish", "Here is the plan: run.", "Tässä on suunnitelma: juokse."),
        ("Czech", "Note: closed today", "Poznámka: dnes zavřeno"),
        ("Czech", "Of course!", "Jistě!"),
        ("Finnish", "A quotation without marks in the source", "Hän sanoi: ”Nukun.”"),
        ("Finnish", "Rooms 5 to 6", "Huoneet 5–6"),
    ],
)
def test_what_looks_like_a_preamble_and_is_the_text_stays(
    language: str, source: str, translation: str
) -> None:
    assert read_translation(f" {translation}", source, language).answer == translation


def test_of_two_pairs_of_marks_the_inner_one_is_the_texts_own() -> None:
    assert read_translation(f'"„{GERMAN}“"', SOURCE, "German").answer == f"„{GERMAN}“"


def test_a_reference_with_marks_that_its_source_lacks_can_be_given() -> None:
    [item] = TASK.items([{"translation": {"de": f"„{GERMAN}“", "en": SOURCE}}])
    assert TASK.extract(item, TASK.gold_output(item)).answer == item.target == f"„{GERMAN}“"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\n",
        '""',
        "```\n```",
        "Here is the translation:",
        "<think>Der Hund",
        "German:",
        "<end_of_turn>",
    ],
)
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
    rows = [
        {"translation": {"de": GERMAN, "en": SOURCE}},
        {"translation": {"en": SOURCE, "de": GERMAN}},
    ]
    first, second = TASK.items(rows)
    assert (
        (first.fields, first.target)
        == (second.fields, second.target)
        == ({"source": SOURCE}, GERMAN)
    )


def test_equal_sources_are_different_items() -> None:
    first, second = TASK.items([{"translation": {"de": GERMAN, "en": SOURCE}}] * 2)
    assert first.item_id != second.item_id


@pytest.mark.parametrize(
    ("name", "pair", "prefill"),
    [
        ("wmt16_en_fi", {"en": SOURCE, "fi": FINNISH}, "Finnish:"),
        ("wmt16_en_fi_3000", {"en": SOURCE, "fi": FINNISH}, "Finnish:"),
        ("wmt16_en_cs", {"cs": CZECH, "en": SOURCE}, "Czech:"),
        ("wmt14_en_cs", {"cs": CZECH, "en": SOURCE}, "Czech:"),
    ],
)
def test_every_pair_translates_out_of_english(
    name: str, pair: dict[str, str], prefill: str
) -> None:
    task = tasks.get(name)
    [item] = task.items([{"translation": pair}])
    user = f"Translate the following English text to {prefill[:-1]}.\nEnglish: {SOURCE}"
    assert task.prompt(item) == tasks.Prompt(system="", user=user, prefill=prefill)
    assert item.references == [item.target] != [SOURCE]


def test_finnish_is_asked_whole_or_without_the_repeated_sources() -> None:
    rows = [
        {"translation": {"en": SOURCE, "fi": f"{reference} {i}."}}
        for reference in "AB"
        for i in range(3_000)
    ]
    whole, first = (
        list(tasks.get("wmt16_en_fi").items(rows)),
        list(tasks.get("wmt16_en_fi_3000").items(rows)),
    )
    assert (len(whole), len(first)) == (6_000, 3_000)
    assert [item.references for item in first] == [item.references for item in whole[:3_000]]
    assert whole[3_000].references == ["B 0."]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "no column 'translation'"),
        ({"translation": GERMAN}, "column 'translation': expected a mapping of texts"),
        ({"translation": {"de": GERMAN}}, "no column 'en'; the row has: de"),
        (
            {"translation": {"de": "", "en": SOURCE}},
            "column 'de': expected a text that is not empty",
        ),
        (
            {"translation": {"de": GERMAN, "en": None}},
            "column 'en': expected a text that is not empty",
        ),
    ],
)
def test_a_bad_row_is_named_with_what_was_expected(row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=rf"task 'wmt16_en_de', row 0.*{message}"):
        list(TASK.items([row]))
