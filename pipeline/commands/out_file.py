"""A table that a command also writes to a file, as `--out` says."""

from pathlib import Path

import polars as pl

from pipeline.core.errors import ConfigError
from pipeline.store import replacing, write_parquet


def check_out(out: Path) -> None:
    """Nothing, where `write_out` can write to a file of the name of `out`.

    Raises:
        ConfigError: it ends neither in `.parquet` nor in `.csv`.
    """
    if out.suffix not in (".parquet", ".csv"):
        raise ConfigError(
            f"--out: given {str(out)!r}; allowed: a file that ends in .parquet or .csv"
        )


def write_out(frame: pl.DataFrame, out: Path) -> None:
    """Nothing; `frame` is written to `out`, a `.parquet` or `.csv` file, in one rename.

    Raises:
        ConfigError: the file's name ends otherwise.
    """
    check_out(out)
    if out.suffix == ".parquet":
        write_parquet(frame, out)
        return
    with replacing(out) as part:
        frame.write_csv(part, float_precision=6)
