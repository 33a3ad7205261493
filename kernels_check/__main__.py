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
from pipeline.core.records import Device
from pipeline.data import checkpoints
from pipeline.engines import processor
from pipeline.settings import ModelSpec
from pipeline.store import EngineFacts

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


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
        Literal["auto", "cpu", "gpu"],
        typer.Option(help="Where to run; auto takes a GPU if there is one."),
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
        raise ConfigError("--no-ops and --no-engine leave nothing to check; give at most one")
    if json_file is not None and not json_file.parent.is_dir():
        raise ConfigError(
            f"--json: given {json_file}, but there is no folder {json_file.parent}; make it first"
        )
    spec = load_model(model) if engine else None
    findings = _measure(ops, spec, ops_check.find_device(device))
    _print(findings)
    if json_file is not None:
        document = verdict.document(findings)
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        json_file.write_text(f"{text}\n")
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
            f'--model: {path} has backend = "{spec.backend}", which computes nothing; allowed: a '
            "model that vLLM runs"
        )
    return spec


def _measure(ops: bool, model: ModelSpec | None, device: str) -> verdict.Findings:
    """Kernels first: on a GPU, starting the engine can put its own in the place of torch's."""
    facts = _facts(device)
    op_rows = engine_rows = None
    if ops:
        _say(f"checking kernels on {device}")
        op_rows = list(ops_check.check(device, ops_check.operations(device)))
    if model is not None:
        engine_rows, engine_facts = _measure_engine(model, "gpu" if device == "cuda" else "cpu")
        facts = {
            "versions": engine_facts.versions,
            "hardware": {**facts["hardware"], **engine_facts.hardware},
            "settings": engine_facts.settings,
        }
    name = model.name if model else ""
    return verdict.Findings(ops=op_rows, engine=engine_rows, model=name, facts=facts)


def _measure_engine(
    model: ModelSpec, device: Device
) -> tuple[list[engine_check.EngineRow], EngineFacts]:
    folder = checkpoints.folder(model, _say)
    log = Path(tempfile.mkdtemp(prefix="kernels_check-")) / "engine.log"
    num_schedules = len(engine_check.SCHEDULES) + 1
    _say(
        f"starting vLLM on {model.name} and asking it under {num_schedules} schedules (log: {log})"
    )
    try:
        with output_to(log):
            requests = engine_check.requests(model, folder)
            engine = engine_check.start(model, folder, requests, device)
            return list(engine_check.check(engine, requests)), engine.facts()
    except Exception as error:
        is_ours = isinstance(error, PipelineError)
        reason = str(error) if is_ours else f"{type(error).__name__}: {error}"
        raise EngineError(f"{reason}\nWhat vLLM said is in {log}") from error


def _facts(device: str) -> dict[str, Any]:
    import torch

    hardware = {
        "processor": processor(),
        "gpu": torch.cuda.get_device_name() if device == "cuda" else "",
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }
    return {"versions": {"torch": torch.__version__}, "hardware": hardware, "settings": {}}


def _print(findings: verdict.Findings) -> None:
    console = Console()
    for table in verdict.tables(findings):
        console.print(table)
    color = "green" if findings.all_equal else "yellow"
    console.print(verdict.conclusion(findings), style=color, highlight=False)


def _say(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command; whatever keeps it from an answer ends with 2, as 1 is a difference."""
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
