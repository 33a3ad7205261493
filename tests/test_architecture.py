"""Imports go one way, and heavy packages are imported only where they are needed."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
SLOW_TO_IMPORT = {*HEAVY, "torch", "transformers", "datasets", "altair"}
STAGES = {
    ("plan", "make_plan"),
    ("generate", "generate"),
    ("score", "score"),
    ("analyses", "analyse"),
    ("report", "write_report"),
}
"""Rooms of the stages, and the function that runs each."""
SCORES_WHAT_NO_ENGINE_WROTE = "pipeline/bench/programs.py: measure"
CLOCKS = {
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "datetime.date.today",
    "time.time",
    "time.localtime",
}
FILES = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "pipeline").rglob("*.py"))}


def name_of(path: Path) -> str:
    """`pipeline/tasks/mmlu.py`: how a message names a file."""
    return str(path.relative_to(ROOT))


def room_of(path: Path) -> str:
    """`tasks` for pipeline/tasks/mmlu.py: the first part below `pipeline`."""
    return path.relative_to(ROOT / "pipeline").parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> list[tuple[str, bool]]:
    """Dotted names that a file imports, except for types only, and whether at module level."""
    names = []

    def visit(node: ast.AST, top: bool) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            names.extend((alias.name, top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.append((str(node.module), top))
            names.extend((f"{node.module}.{alias.name}", top) for alias in node.names)
        inner = top and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(tree, True)
    return names


IMPORTS = {path: imports(tree) for path, tree in FILES.items()}


def between_rooms() -> Iterator[tuple[Path, str, str]]:
    """Each import of one room by another: the file, the other room, and the dotted name."""
    for path, names in IMPORTS.items():
        for name, _ in names:
            package, room, *_ = (*name.split("."), "")
            if package == "pipeline" and room in FLOOR and room != room_of(path):
                yield path, room, name


def test_every_room_has_a_floor_and_every_floor_has_its_rooms() -> None:
    rooms = {room_of(path) for path in FILES} - {"__init__", "__main__"}
    assert rooms == {*FLOOR}


def test_a_room_uses_only_rooms_below_it() -> None:
    upward = [
        f"{name_of(path)}: {name}"
        for path, room, name in between_rooms()
        if room_of(path) in FLOOR and FLOOR[room] >= FLOOR[room_of(path)]
    ]
    assert not upward


def test_no_room_uses_what_another_keeps_to_itself() -> None:
    private = [
        f"{name_of(path)}: {name}"
        for path, _, name in between_rooms()
        if any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
    ]
    assert not private


def test_modules_of_a_room_import_one_another_without_a_circle() -> None:
    names = {
        path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in FILES
    }
    uses = {
        names[path]: {
            name
            for name, _ in IMPORTS[path]
            if name.startswith(f"pipeline.{room_of(path)}.") and name != names[path]
        }
        for path in FILES
    }
    modules = {name: {other for other in used if other in uses} for name, used in uses.items()}
    graphlib.TopologicalSorter(modules).prepare()


def test_every_package_says_what_it_is_for() -> None:
    doors = [path for path in FILES if path.name == "__init__.py"]
    assert not [name_of(path) for path in doors if not ast.get_docstring(FILES[path])]


def stages_in(node: ast.AST, names: dict[str, str]) -> set[tuple[str, str]]:
    """The stages that `node` names, given what the imported `names` stand for."""
    stages = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute):
            first, *rest = ast.unparse(part).split(".")
            dotted = [*names.get(first, first).split("."), *rest]
            if dotted[0] == "pipeline" and len(dotted) > 2:
                stages.add((dotted[1], dotted[-1]))
    return stages & STAGES


def test_stages_are_strung_together_in_one_place() -> None:
    places = []
    for path, tree in FILES.items():
        names = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        places += [
            f"{name_of(path)}: {getattr(node, 'name', f'line {node.lineno}')}"
            for node in tree.body
            if not isinstance(node, ast.ImportFrom) and len(stages_in(node, names)) > 1
        ]
    assert {*places} - {SCORES_WHAT_NO_ENGINE_WROTE} == {"pipeline/sweep.py: run_sweep"}


def test_heavy_packages_are_imported_inside_functions_of_few_rooms() -> None:
    wrong = [
        f"{name_of(path)}: {name}"
        for path, names in IMPORTS.items()
        for name, top in names
        for package in [name.split(".")[0]]
        if (package in HEAVY and room_of(path) not in HEAVY[package])
        or (package in SLOW_TO_IMPORT and top)
    ]
    assert not wrong


def test_nothing_in_pipeline_imports_kernels_check() -> None:
    assert not [
        name_of(path)
        for path, names in IMPORTS.items()
        for name, _ in names
        if name.startswith("kernels_check")
    ]


def test_no_module_reads_the_wall_clock() -> None:
    checks = {path: ast.parse(path.read_text()) for path in (ROOT / "kernels_check").rglob("*.py")}
    readers = [
        f"{name_of(path)}, line {node.lineno}"
        for path, tree in {**FILES, **checks}.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in CLOCKS
    ]
    assert not readers


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
