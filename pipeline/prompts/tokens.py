"""Text to token ids by a model's tokenizer. A template has written the BOS, so none is added."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import PromptError


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSpan:
    """Token ids of a prompt, and which of them hold the date."""

    token_ids: list[int]
    start: int
    """First token that holds a character of the date; equal to `stop` for a control."""
    stop: int
    """One past the last such token."""


class PromptTokenizer:
    """Tokenises for one model."""

    def __init__(self, model: str, folder: Path) -> None:
        """Load the tokenizer of the model named `model`, which is in `folder`."""
        from transformers import AutoTokenizer

        self.model = model
        self.hf = AutoTokenizer.from_pretrained(folder)
        if not self.hf.is_fast:
            raise PromptError(
                f"model {model}: its tokenizer has no fast version, which the date span's offsets "
                "need; add a tokenizer.json"
            )
        added = self.hf.added_tokens_decoder.values()
        plain = [t.content for t in added if not (t.lstrip or t.rstrip or t.single_word)]
        longest_first = sorted(plain, key=len, reverse=True)
        self.special = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        """Tokens at which the tokenizer parts a text before anything else."""

    def encode(self, text: str) -> list[int]:
        """Token ids of rendered text."""
        return list(self.hf(text, add_special_tokens=False)["input_ids"])

    def encode_all(self, texts: Iterable[str]) -> dict[str, list[int]]:
        """Each distinct text -> its token ids, tokenised on all cores."""
        distinct = list(dict.fromkeys(texts))
        encode = self.hf.backend_tokenizer.encode_batch_fast
        ids = [encoding.ids for encoding in encode(distinct, add_special_tokens=False)]
        return dict(zip(distinct, ids, strict=True))

    def span(self, before: str, date_text: str, after: str) -> TokenSpan:
        """Token ids of a prompt, and the span of the date among them."""
        encoded = self.hf(
            f"{before}{date_text}{after}", add_special_tokens=False, return_offsets_mapping=True
        )
        begin, end = len(before), len(before) + len(date_text)
        offsets = enumerate(encoded["offset_mapping"])
        inside = [i for i, (a, b) in offsets if a < end and b > begin] if date_text else []
        start, stop = (inside[0], inside[-1] + 1) if inside else (0, 0)
        return TokenSpan(token_ids=list(encoded["input_ids"]), start=start, stop=stop)

    def label_token_ids(self, text: str, labels: Sequence[str]) -> tuple[int, ...]:
        """(num_labels,) the one token that each of `labels` becomes directly after a prompt.

        Raises:
            PromptError: a label is not one token there, or merges with the end of the prompt.
        """
        context = self.encode(text)
        tokens = []
        for label in labels:
            ids = self.encode(text + label)
            if len(ids) != len(context) + 1 or ids[:-1] != context:
                ending = self.hf.convert_ids_to_tokens(ids[len(context) - 1 :])
                raise PromptError(
                    f"model {self.model}: label {label!r} is not one token of its own after "
                    f"{text[-20:]!r} (it ends in {ending})"
                )
            tokens.append(ids[-1])
        if len(set(tokens)) != len(tokens):
            raise PromptError(f"model {self.model}: labels {labels} share a token: {tokens}")
        return tuple(tokens)
