"""Where a model thinks aloud before it answers, only what follows the thinking is its answer."""

import re

_OPEN = re.compile(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(think|thinking|thought|reasoning)>", re.IGNORECASE)
_FINAL_CHANNEL = re.compile(
    r"""(?: (?:<\|channel\|> | \Aanalysis.*?assistant) final
        | \Afinal (?= <\|message\|> | (?:def|from|import)[ ] | [^\sa-z_:;.,!?=)\]}'’/–—-] ) )
    (?:<\|message\|>)?""",
    re.DOTALL | re.VERBOSE,
)
"""gpt-oss's announcement of its answer, without special tokens `analysis ... assistantfinal`.

Where it does not think first, `final` is the first word and runs into the answer, as in `finalThe
answer`; before a small letter it would be a word like `finally`, so only the beginnings of a
program are told apart there.
"""
_ANALYSIS = re.compile(r"\A(?:<\|channel\|>analysis\b|analysis(?=[A-Z]))")
"""A beginning in the channel for thinking, with or without special tokens."""
_SPECIAL = re.compile(
    r"<\|(?:im_end|im_start|endoftext|eot_id|end_of_text|eom_id|end|return|start)\|>"
    r"|<end_of_turn>|<eos>|</s>"
)
"""Ends of a turn that leak into texts (Qwen, Llama 3, Phi-4, gpt-oss, Gemma 3, Llama 2)."""


def visible(text: str) -> str:
    r"""The answer part of `text`: no reasoning block, no end-of-turn marker, line ends as `\n`.

    A block that is closed but was opened by the chat template ends at its closing tag. Behind a
    block that never closes there is no answer, as the model was cut off while thinking; nor is
    there one where the final channel was never reached.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if _ANALYSIS.match(text) and not _FINAL_CHANNEL.search(text):
        return ""
    text = _FINAL_CHANNEL.split(text)[-1]
    text = _CLOSE.split(text)[-1] if _CLOSE.search(text) else text
    opened = _OPEN.search(text)
    return _SPECIAL.sub("", text[: opened.start()] if opened else text)
