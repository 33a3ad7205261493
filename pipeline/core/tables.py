"""Row types as Polars schemas, and the columns and joins that several stages share."""

import dataclasses
import datetime
import hashlib
import json
import struct
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import polars as pl

from pipeline.core.records import Index

Record = TypeVar("Record")

RUN_KEY = ["model", "engine", "task", "style"]
"""What makes one benchmark run: scores are compared within one value of these."""
ROW_KEY = [*RUN_KEY, "item_id", "variant", "replicate"]
"""What makes one completion."""
OUTPUT_KEY = [*RUN_KEY, "item_id", "output_id"]
"""What makes one distinct output; scores have one row for each of these and each metric."""

_DTYPES: dict[object, pl.DataType] = {
    str: pl.String(),
    int: pl.Int64(),
    float: pl.Float64(),
    bool: pl.Boolean(),
    datetime.date: pl.Date(),
    Index: pl.UInt32(),
}


def schema(record: type) -> pl.Schema:
    """Columns of a record class of `records`, in field order; `dict` fields become JSON text."""
    hints = typing.get_type_hints(record)
    return pl.Schema({f.name: _dtype(hints[f.name]) for f in dataclasses.fields(record)})


def _dtype(hint: Any) -> pl.DataType:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _dtype(next(a for a in args if a is not types.NoneType))
    if origin is typing.Literal or origin is dict:
        return pl.String()
    if origin in (list, tuple):
        return pl.List(_dtype(args[0]))
    return _DTYPES[hint]


def from_records(record: type, rows: Iterable[Any]) -> pl.DataFrame:
    """A frame with one row for each of `rows`, which are instances of the record class `record`."""
    columns, rows = schema(record), list(rows)
    values = {name: [getattr(row, name) for row in rows] for name in columns}
    for name in _json_fields(record):
        values[name] = [json.dumps(v, ensure_ascii=False, sort_keys=True) for v in values[name]]
    return pl.DataFrame(values, schema=columns)


def to_records(record: type[Record], frame: pl.DataFrame) -> Iterator[Record]:
    """Instances of the record class `record`, one a row of `frame`, which may have more columns."""
    as_json = _json_fields(record)
    for row in frame.select(schema(record).names()).iter_rows(named=True):
        yield record(**{**row, **{name: json.loads(row[name]) for name in as_json}})


def _json_fields(record: type) -> list[str]:
    hints = typing.get_type_hints(record)
    return [name for name, hint in hints.items() if typing.get_origin(hint) is dict]


def output_id(text: str, label_logprobs: Sequence[float], option_order: int = 0) -> str:
    """Name of an output: a hash of its text and of the exact bits of its log-probabilities.

    A letter means another option where the options stand in another order, so the order belongs to
    the name.
    """
    order = f"{option_order}\0".encode() if option_order else b""
    bits = struct.pack(f"<{len(label_logprobs)}d", *label_logprobs)
    return short_hash(order + text.encode() + b"\0" + bits)


def prompt_hash(token_ids: Sequence[int]) -> str:
    """Name of a prompt: a hash of its token ids as little-endian 32-bit integers."""
    return short_hash(struct.pack(f"<{len(token_ids)}I", *token_ids))


def short_hash(data: bytes) -> str:
    """16 hexadecimal digits of the SHA-256 of `data`; enough to tell billions of rows apart."""
    return hashlib.sha256(data).hexdigest()[:16]
