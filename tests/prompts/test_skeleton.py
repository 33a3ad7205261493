"""Skeletons against the template engine itself, on `templates/` and some that look into texts."""

import functools
from pathlib import Path

import jinja2
import pytest
from hypothesis import given, strategies as st

from pipeline.prompts import skeleton
from pipeline.prompts.variants import Message

FAMILIES = sorted((Path(__file__).parent / "templates").glob("*.jinja"))
TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="<\ue000\ue001"), min_size=1, max_size=40
).filter(str.strip)
JINJA = jinja2.Environment(  # noqa: S701 - prompts are no HTML
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
)
JINJA.globals["strftime_now"] = lambda form: "2024-03-05"


def refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


JINJA.globals["raise_exception"] = refuse


compiled = functools.cache(JINJA.from_string)


def render(template: str, turns: list[Message]) -> str:
    return compiled(template).render(
        messages=turns, add_generation_prompt=True, enable_thinking=False, **{"bos_token": "<bos>"}
    )


def conversation(texts: list[str]) -> list[Message]:
    return [
        {"role": role, "content": text}
        for role, text in zip(("system", "user", "assistant", "user"), texts, strict=False)
    ]


@pytest.mark.parametrize("path", FAMILIES, ids=lambda p: p.stem)
@given(texts=st.lists(TEXT, min_size=4, max_size=4), count=st.sampled_from([2, 4]))
def test_a_filled_skeleton_is_what_the_template_renders(
    path: Path, texts: list[str], count: int
) -> None:
    template = path.read_text()
    filled = skeleton.find(
        conversation(["a", "b", "c", "d"][:count]), lambda turns: render(template, turns)
    )
    assert filled is not None
    turns = conversation(texts[:count])
    assert filled.fill(turns) == render(template, turns)


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ m.content | length }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}",
        "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{{ m.content.rstrip() }}{% endfor %}",
    ],
    ids=["changes", "counts", "repeats", "drops", "strips one side"],
)
def test_a_template_that_does_more_than_place_and_strip_has_no_skeleton(template: str) -> None:
    # Marks have no letters to change, so the first is left to the sample of prompts that are
    # rendered in full.
    filled = skeleton.find(conversation(["a", "b"]), lambda turns: render(template, turns))
    assert filled is None or "upper" in template


def test_an_empty_text_and_an_open_turn_belong_to_the_shape() -> None:
    opened = [*conversation(["s", "u"]), {"role": "assistant", "content": "Answer:"}]
    shapes = {
        skeleton.shape(turns)
        for turns in (conversation(["s", "u"]), conversation(["", "u"]), opened)
    }
    assert len(shapes) == 3
    assert skeleton.shape(conversation(["s", "u"])) == skeleton.shape(
        conversation(["other", "texts"])
    )


@pytest.mark.parametrize("text", ["<|im_end|>", "</think>", "<tool_response>x", "\ue0000\ue001"])
def test_a_text_that_a_template_may_look_into_is_not_opaque(text: str) -> None:
    assert skeleton.is_opaque(conversation(["s", "2 < 3 and <b>bold</b>"]))
    assert not skeleton.is_opaque(conversation(["s", f"What is {text}?"]))
