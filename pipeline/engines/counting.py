"""An engine that only counts: what is left to measure is everything around an engine."""

from collections.abc import Iterator

from pipeline.core.records import Output, Request
from pipeline.store import EngineFacts


class CountingEngine:
    """Gives every request one of a few fixed outputs."""

    def __init__(self) -> None:
        """Make log-probabilities that differ a little, so that an item's outputs differ too."""
        self.logprobs = [[-0.5 - i / 64, -1.5, -2.5, -3.0 + i / 64] for i in range(64)]

    def generate(self, requests: Iterator[Request]) -> Iterator[Output]:
        """An output for each request, at once."""
        for request in requests:
            chosen = self.logprobs[request.position * 31 % 64]
            yield Output(
                position=request.position,
                text="",
                label_logprobs=chosen[: len(request.label_token_ids)],
                finish_reason="length",
                num_prompt_tokens=len(request.token_ids),
                num_cached_tokens=0,
                num_output_tokens=1,
            )

    def facts(self) -> EngineFacts:
        """That nothing is computed."""
        return EngineFacts(backend="counting", settings={}, versions={}, hardware={})
