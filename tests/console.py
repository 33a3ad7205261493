"""What a terminal shows."""

from rich.console import Console, RenderableType


def printed(page: RenderableType, width: int = 80) -> str:
    """`page` as text, on a terminal that is `width` columns wide."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(page)
    return capture.get()
