"""`python -m kernels_check`: is this machine deterministic enough for a date sweep?"""

import json
import platform
import tempfile
import traceback
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from kernels_check import engine as engine_check, ops as ops_check, verdict
from pipeline import settings
from pipeline.core.errors import ConfigError, EngineError, PipelineError
from pipeline.core.quiet import output_to
from pipeline.data import checkpoints
from pipeline.engines import processor
from pipeline.settings import ModelSpec

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Device = Literal["auto", "cpu", "gpu"]


@app.command()
def check(
    ops: Annotated[bool, typer.Option(help="Check single kernels of torch.")] = True,
    engine: Annotated[
        bool,
        typer.Option(
            help="Check completions of the real engine, which takes a minute or two on a CPU."
        ),
    ] = True,
    model: Annotated[
        str, typer.Option(help="A model file, or the name of one in configs/models.")
    ] = "smollm2-135m-instruct",
    device: Annotated[
        Device, typer.Option(help="Where to run; auto takes a GPU if there is one.")
    ] = "auto",
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Also write everything measured here."),
    ] = None,
) -> None:
    """Is the hardware, and the engine on it, deterministic enough for a date sweep?

    Compares, bit by bit, a row alone with the same row in batches, and completions under several
    schedules.

    Exit status: 0 everything is equal, 1 something differs, 2 the check could not run.
    """
    if not (ops or engine):
        raise ConfigError(
            "--no-ops and --no-engine leave nothing to check; give one of them at most"
        )
    if json_file is not None and not json_file.parent.is_dir():
        raise ConfigError(
            f"--json: given {json_file}, but there is no folder {json_file.parent}; make it first"
        )
    spec = load_model(model) if engine else None
    findings = _measure(ops, spec, ops_check.find_device(device))
    _print(findings)
    if json_file is not None:
        json_file.write_text(
            json.dumps(verdict.document(findings), indent=2, ensure_ascii=False, allow_nan=False)
            + "\n"
        )
    raise typer.Exit(0 if findings.all_equal else 1)


def load_model(name: str) -> ModelSpec:
    """The settings of a model file, given by path or by name.

    Raises:
        ConfigError: there is none, it has faults, or no engine would run it.
    """
    path = settings.model_path(name)
    if not path.is_file():
        raise ConfigError(f"--model: {settings.unknown_model(name)}")
    spec = settings.model_file(path)
    if spec.backend != "vllm":
        raise ConfigError(
            f'--model: {path} has backend = "simulated", which computes nothing; allowed: '
            "a model that vLLM runs"
        )
    return spec


def _measure(ops: bool, model: ModelSpec | None, device: str) -> verdict.Findings:
    """Kernels first: on a GPU, starting the engine can put its own in the place of torch's."""
    facts = _facts(device)
    kernels = None
    if ops:
        _say(f"checking kernels on {device}")
        kernels = list(ops_check.check(device, ops_check.operations(device)))
    rows = None
    if model is not None:
        rows, of_engine = _measure_engine(model, "gpu" if device == "cuda" else "cpu")
        facts = {
            "versions": of_engine["versions"],
            "hardware": {**facts["hardware"], **of_engine["hardware"]},
            "settings": of_engine["settings"],
        }
    return verdict.Findings(
        ops=kernels, engine=rows, model=model.name if model else "", facts=facts
    )


def _measure_engine(
    model: ModelSpec, device: Literal["cpu", "gpu"]
) -> tuple[list[engine_check.EngineRow], dict[str, Any]]:
    folder = checkpoints.folder(model, _say)
    log = Path(tempfile.mkdtemp(prefix="kernels_check-")) / "engine.log"
    _say(
        f"starting vLLM on {model.name} and asking it under "
        f"{len(engine_check.SCHEDULES) + 1} schedules (log: {log})"
    )
    try:
        with output_to(log):
            asked = engine_check.requests(model, folder)
            engine = engine_check.start(model, folder, asked, device)
            return list(engine_check.check(engine, asked)), engine.facts().as_json()
    except Exception as error:
        what = (
            str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
        )
        raise EngineError(f"{what}\nWhat vLLM said is in {log}") from error


def _facts(device: str) -> dict[str, Any]:
    import torch

    gpu = torch.cuda.get_device_name() if device == "cuda" else ""
    hardware = {
        "processor": processor(),
        "gpu": gpu,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }
    return {"versions": {"torch": torch.__version__}, "hardware": hardware, "settings": {}}


def _print(findings: verdict.Findings) -> None:
    console = Console()
    for table in verdict.tables(findings):
        console.print(table)
    console.print(
        verdict.conclusion(findings),
        style="green" if findings.all_equal else "yellow",
        highlight=False,
    )


def _say(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command. Whatever keeps it from an answer ends with status 2, since 1 says that
    something differs.
    """
    try:
        app()
    except PipelineError as error:
        typer.secho(f"kernels_check: {error}", err=True, fg=typer.colors.RED)
        raise SystemExit(error.exit_code) from None
    except Exception:
        traceback.print_exc()
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
