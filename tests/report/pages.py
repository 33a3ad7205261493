"""Reports as a reader finds them."""

import html.parser
from pathlib import Path

from pipeline import report

VOID = {"meta", "br", "link", "img", "input", "hr"}
SIMPLE = report.Provenance(
    title="A sweep", description="What it asks.", sections={"Engine": {"vllm": "1.2.3"}}
)


class Page(html.parser.HTMLParser):
    """Tags, attributes and text of a page; raises where tags do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self._open, self._skipped = "", [], {"style"}
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._skipped & set(self._open):
            self.text += f" {data}"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))
