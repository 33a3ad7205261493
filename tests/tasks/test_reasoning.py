import pytest

from pipeline.tasks._reasoning import visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The answer is B.", "The answer is B."),
        ("<think>\nA?\n</think>\nB", "\nB"),
        ("A, I think\n</think>\nB", "\nB"),
        ("<think>\nstill at it, A", ""),
        ("one\r\ntwo\rthree<|im_end|>", "one\ntwo\nthree"),
        (
            "<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final<|message|>B",
            "B",
        ),
        ("analysisIs it A? No.assistantfinalB", "B"),
        ("<|channel|>analysis<|message|>It could be A", ""),
        ("analysisWe need A", ""),
        ("analysis of the text shows A", "analysis of the text shows A"),
        ("finalThe answer is B.", "The answer is B."),
        ("final**B**", "**B**"),
        ("finaldef f(x):", "def f(x):"),
        ("final<|message|>B", "B"),
        ("finally, B", "finally, B"),
        ("final answer: B", "final answer: B"),
        ("final: B", "final: B"),
        ("It is finalB", "It is finalB"),
    ],
    ids=[
        "plain",
        "block",
        "opened by the template",
        "cut off",
        "line ends",
        "channels",
        "without special tokens",
        "cut",
        "cut too",
        "a word",
        "final channel at once",
        "final channel at once, with markup",
        "final channel at once, with a program",
        "final channel at once, with a token",
        "another word",
        "the word final",
        "the word final and a mark",
        "not at the start",
    ],
)
def test_only_what_follows_the_thinking_is_visible(text: str, expected: str) -> None:
    assert visible(text) == expected
