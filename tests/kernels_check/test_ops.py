"""The kernel check finds an op that depends on the batch, and only such a one.

Its command says so by exit status and JSON.
"""

import json
import sys
from pathlib import Path

import pytest
import torch

from kernels_check import __main__ as command, ops

SIZES = (1, 2, 5)


def op(function: ops.Function, name: str = "planted") -> ops.Op:
    """An op of rows of 8 numbers."""
    return ops.Op(name=name, shapes=((8,),), build=lambda draw, shape: function)


INVARIANT = op(lambda rows: rows * 2 + 1, "elementwise")
LEANS_ON_NEIGHBOURS = op(lambda rows: rows - 0.001 * rows.mean(dim=0))


def rows_of(planted: ops.Op, dtypes: tuple[str, ...] = ("float32",)) -> list[ops.OpRow]:
    return list(ops.check("cpu", [planted], dtypes, SIZES))


def test_an_op_that_looks_at_the_other_rows_is_found_in_every_real_batch() -> None:
    rows = rows_of(LEANS_ON_NEIGHBOURS)
    assert {row.batch_size for row in rows if not row.equal} == {2, 5}
    assert all(row.equal for row in rows if row.batch_size == 1)
    assert all((row.max_abs_difference or 0) > 0 for row in rows if not row.equal)


def test_an_op_that_treats_one_place_otherwise_is_found_there() -> None:
    def last_is_special(rows: torch.Tensor) -> torch.Tensor:
        out = rows.clone()
        out[4:] += 1e-6
        return out

    assert [
        (row.batch_size, row.position) for row in rows_of(op(last_is_special)) if not row.equal
    ] == [(5, 4)]


def test_an_op_that_does_not_repeat_itself_is_found_at_batch_size_1() -> None:
    calls = iter(range(1000))
    assert not any(row.equal for row in rows_of(op(lambda rows: rows + next(calls))))


@pytest.mark.parametrize("dtype", ops.DTYPES)
def test_an_elementwise_op_is_equal_in_every_batch(dtype: str) -> None:
    assert all(row.equal and row.max_abs_difference == 0 for row in rows_of(INVARIANT, (dtype,)))


def test_the_first_the_middle_and_the_last_place_of_each_batch_are_tried() -> None:
    assert [(row.batch_size, row.position) for row in rows_of(INVARIANT)] == [
        (1, 0),
        (2, 0),
        (2, 1),
        (5, 0),
        (5, 2),
        (5, 4),
    ]


def test_every_real_op_gives_rows_for_every_dtype() -> None:
    tiny = [
        ops.Op(name=o.name, shapes=((12, 8)[: len(o.shapes[0])],), build=o.build)
        for o in ops.operations("cpu")
    ]
    found = {(row.op, row.dtype) for row in ops.check("cpu", tiny, ops.DTYPES, SIZES)}
    assert found == {(o.name, dtype) for o in tiny for dtype in ops.DTYPES}


def test_real_ops_compute_what_their_names_say() -> None:
    named = {o.name: o for o in ops.operations("cpu")}
    rows = torch.linspace(-1, 1, 12).reshape(2, 6)

    def ones(*size: int) -> torch.Tensor:
        return torch.ones(*size)

    summed = rows.sum(dim=1, keepdim=True) / 6**0.5
    assert torch.allclose(named["matmul"].build(ones, (6, 3))(rows), summed.expand(2, 3))
    assert torch.allclose(named["linear"].build(ones, (6, 3))(rows), summed.expand(2, 3) + 1)
    assert torch.allclose(
        named["RMSNorm"].build(ones, (6,))(rows),
        rows / (rows.square().mean(dim=1, keepdim=True) + 1e-5).sqrt(),
    )
    assert torch.allclose(
        named["log-softmax"].build(ones, (6,))(rows).exp().sum(dim=1), torch.ones(2)
    )


def test_a_dtype_that_an_op_does_not_know_is_left_out() -> None:
    norm = next(o for o in ops.operations("cpu") if o.name == "RMSNorm")
    # torch stores this dtype but cannot normalise in it.
    assert rows_of(norm, ("float8_e4m3fn",)) == []


def test_numbers_are_the_same_in_every_check() -> None:
    assert rows_of(LEANS_ON_NEIGHBOURS, ("float32", "bfloat16")) == rows_of(
        LEANS_ON_NEIGHBOURS, ("float32", "bfloat16")
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, float("nan")], [1.0, float("nan")], (True, 0.0)),
        ([0.0], [-0.0], (False, 0.0)),
        ([1.0, 2.0], [1.0, 2.5], (False, 0.5)),
        ([1.0], [float("nan")], (False, None)),
        ([1.0], [float("inf")], (False, None)),
    ],
)
def test_comparison_is_by_bits(
    first: list[float], second: list[float], expected: tuple[bool, float | None]
) -> None:
    assert ops.compare(torch.tensor(first), torch.tensor(second)) == expected


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    """Exit status of the command."""
    monkeypatch.setattr(sys, "argv", ["kernels_check", *options])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(("planted", "status"), [(INVARIANT, 0), (LEANS_ON_NEIGHBOURS, 1)])
def test_exit_status_and_json_say_whether_anything_differs(
    planted: ops.Op,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ops, "operations", lambda device: [planted])
    assert (
        run(monkeypatch, "--no-engine", "--device", "cpu", "--json", str(tmp_path / "found.json"))
        == status
    )
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["all_equal"] is (status == 0)
    assert all(row["equal"] for row in found["ops"]) is (status == 0)
    assert {row["batch_size"] for row in found["ops"]} == set(ops.BATCH_SIZES)
    assert found["engine"] is None
    assert found["versions"]["torch"] == torch.__version__
    printed = capsys.readouterr().out
    assert planted.name in printed
    assert ("bits in a batch than alone" in " ".join(printed.split())) is (status == 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--no-ops", "--no-engine"), "nothing to check"),
        (("--no-ops", "--model", "smollm2-135m"), "did you mean 'smollm2-135m-instruct'"),
        (("--no-ops", "--model", "simulated"), "computes nothing"),
        (("--no-engine", "--json", "no/such/folder/x.json"), "no folder"),
        (("--device", "tpu"), "tpu"),
    ],
)
def test_a_check_that_cannot_run_ends_with_2_and_says_why(
    options: tuple[str, ...],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, *options) == 2
    assert says in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--no-engine", "--device", "gpu") == 2
    assert "no GPU" in capsys.readouterr().err


def test_a_fault_of_the_check_itself_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(rows: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError

    monkeypatch.setattr(ops, "operations", lambda device: [op(broken)])
    assert run(monkeypatch, "--no-engine", "--device", "cpu") == 2
