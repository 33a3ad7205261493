"""Imports go one way, and heavy packages are imported only where they are needed."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FLOORS = (
    ("core",),
    ("tasks", "sandbox", "store", "settings"),
    ("metrics", "prompts", "data", "engines", "cluster"),
    ("plan", "analyses"),
    ("generate", "score", "report"),
    ("sweep",),
    ("commands", "bench"),
    ("cli",),
)
"""Rooms by floor: a room uses only rooms on floors below its own."""
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
HEAVY = {"vllm": {"engines"}, "ray": {"cluster", "generate", "score"}}
FILES = sorted((ROOT / "pipeline").rglob("*.py"))


def room_of(path: Path) -> str:
    """`tasks` for pipeline/tasks/mmlu.py: the first part below `pipeline`."""
    return path.relative_to(ROOT / "pipeline").parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[str, bool]]:
    """Dotted names that a file imports, and whether it does so at module level (imports for types
    only are left out).
    """
    found = []

    def visit(node: ast.AST, top: bool) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name, top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.append((str(node.module), top))
            found.extend((f"{node.module}.{alias.name}", top) for alias in node.names)
        inner = top and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(ast.parse(path.read_text()), True)
    return found


def imported_rooms(path: Path) -> Iterator[tuple[str, str]]:
    """Each room that a file uses, and the dotted name by which it does."""
    for name, _ in imports(path):
        parts = name.split(".")
        if (
            parts[0] == "pipeline"
            and len(parts) > 1
            and parts[1] in FLOOR
            and parts[1] != room_of(path)
        ):
            yield parts[1], name


def test_every_room_has_a_floor_and_every_floor_has_its_rooms() -> None:
    rooms = {room_of(path) for path in FILES} - {"__init__", "__main__"}
    assert rooms == {*FLOOR}


@pytest.mark.parametrize("room", FLOOR)
def test_a_room_uses_only_rooms_below_it(room: str) -> None:
    used = [
        (path, other, name)
        for path in FILES
        if room_of(path) == room
        for other, name in imported_rooms(path)
    ]
    upward = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, other, name in used
        if FLOOR[other] >= FLOOR[room]
    ]
    assert not upward


def test_no_room_uses_what_another_keeps_to_itself() -> None:
    private = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        for _, name in imported_rooms(path)
        if any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
    ]
    assert not private


def test_modules_of_a_room_import_one_another_without_a_circle() -> None:
    uses: dict[str, set[str]] = {}
    for path in FILES:
        here = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        room = f"pipeline.{room_of(path)}."
        uses[here] = {name for name, _ in imports(path) if name.startswith(room) and name != here}
    modules = {name: {other for other in used if other in uses} for name, used in uses.items()}
    graphlib.TopologicalSorter(modules).prepare()


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_packages_are_imported_inside_functions_of_few_rooms(path: Path) -> None:
    for name, top in imports(path):
        package = name.split(".")[0]
        if package in HEAVY:
            assert room_of(path) in HEAVY[package], f"{package} is not for {path.name}"
        if package in {*HEAVY, "torch", "transformers", "datasets", "altair"}:
            assert not top, f"{path.name} imports {package} at module level"


def test_nothing_in_pipeline_imports_kernels_check() -> None:
    assert not [p for p in FILES for name, _ in imports(p) if name.startswith("kernels_check")]


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom pipeline.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('vllm', 'ray', 'torch', 'transformers', 'polars', 'numpy', "
        "'datasets', 'pydantic') if m in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines()[-1] == "[]"


def test_settings_are_refused_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        'name = "x"\nmodels = ["simulated"]\n[[tasks]]\nname = "nope"\n'
    )
    code = (
        "import sys\nfrom pipeline.cli import main\n"
        f"sys.argv = ['datesweep', 'run', {str(tmp_path / 'bad.toml')!r}]\n"
        "try:\n    main()\nexcept SystemExit as e:\n    print('exit', e.code)\n"
        "print([m for m in ('vllm', 'ray', 'torch', 'transformers', 'polars', 'datasets') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines() == ["exit 2", "[]"]
    assert "nope" in done.stderr


@pytest.mark.parametrize(
    "path",
    [*FILES, *sorted((ROOT / "kernels_check").rglob("*.py"))],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_no_module_reads_the_wall_clock(path: Path) -> None:
    clocks = {
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.date.today",
        "datetime.datetime.utcnow",
        "time.time",
        "time.localtime",
    }
    calls = [
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    assert not clocks & set(calls)
