"""Imports go one way, and heavy packages are imported only where they are needed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LAYERS = (
    "errors records limits | registry places dates conditions stats _confined _forkserver turns _launch _verdict sandbox frames progress "
    "quiet cache | tasks metrics | config settings narrowing sources checkpoints fetch | variants skeleton prompts splice floor store "
    "asked proofs | order plan outlook engine simulated cluster | compose shards replica generate chunks judge early score | analyses | "
    "report joined compared | stages inspect doctor | bench | cli"
)
ORDER = {name: (layer, place) for layer, names in enumerate(LAYERS.split("|")) for place, name in enumerate(names.split())}
HEAVY = {"vllm": {"engine"}, "ray": {"cluster", "early", "generate", "replica", "score"}}
FILES = sorted((ROOT / "pipeline").rglob("*.py"))


def module_of(path: Path) -> str:
    """`tasks` for pipeline/tasks/mmlu.py: the first part below `pipeline`."""
    return path.relative_to(ROOT / "pipeline").parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[str, bool]]:
    """Dotted names that a file imports, and whether it does so at module level (imports for types only are left out)."""
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


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_earlier_layers(path: Path) -> None:
    here = module_of(path)
    if here in ("__init__", "__main__"):
        return
    assert here in ORDER, f"{here} has no place in LAYERS"
    for name, _ in imports(path):
        parts = name.split(".")
        if parts[0] == "pipeline" and len(parts) > 1 and parts[1] in ORDER and parts[1] != here:
            assert ORDER[parts[1]] < ORDER[here], f"{here} imports {parts[1]}, which comes later"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_packages_are_imported_inside_functions_of_few_modules(path: Path) -> None:
    for name, top in imports(path):
        package = name.split(".")[0]
        if package in HEAVY:
            assert module_of(path) in HEAVY[package], f"{package} is not for {path.name}"
        if package in {*HEAVY, "torch", "transformers", "datasets", "altair"}:
            assert not top, f"{path.name} imports {package} at module level"


def test_nothing_in_pipeline_imports_kernels_check() -> None:
    assert not [p for p in FILES for name, _ in imports(p) if name.startswith("kernels_check")]


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom pipeline.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('vllm', 'ray', 'torch', 'transformers', 'polars', 'numpy', 'datasets', 'pydantic') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == "[]"


def test_settings_are_refused_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('name = "x"\nmodels = ["simulated"]\n[[tasks]]\nname = "nope"\n')
    code = (
        "import sys\nfrom pipeline.cli import main\n"
        f"sys.argv = ['datesweep', 'run', {str(tmp_path / 'bad.toml')!r}]\n"
        "try:\n    main()\nexcept SystemExit as e:\n    print('exit', e.code)\n"
        "print([m for m in ('vllm', 'ray', 'torch', 'transformers', 'polars', 'datasets') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines() == ["exit 2", "[]"]
    assert "nope" in done.stderr


@pytest.mark.parametrize("path", [*FILES, *sorted((ROOT / "kernels_check").rglob("*.py"))], ids=lambda p: str(p.relative_to(ROOT)))
def test_no_module_reads_the_wall_clock(path: Path) -> None:
    clocks = {
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.date.today",
        "datetime.datetime.utcnow",
        "time.time",
        "time.localtime",
    }
    calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not clocks & set(calls)
