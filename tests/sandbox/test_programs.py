"""What becomes of programs: what passes, what fails and why, and what tests may ask of them."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline.sandbox.offers import strongest
from tests.sandbox.conftest import Run


def test_a_program_that_reaches_its_end_passes(run: Run) -> None:
    result = run(
        "import math, re, json, random, collections, dataclasses\nassert math.sqrt(4) == 2"
    )
    assert (result.status, result.detail, result.limit) == ("passed", "", "")


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("assert 1 == 2, 'no'", "AssertionError: no"),
        ("def f(:", "SyntaxError"),
        ("x = '\\0'\0", "source code string cannot contain null bytes"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("import os; os._exit(0)", "left before its end with status 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("input()", "EOFError"),
        (
            "print('passed'); import os; os.write(1, b'passed\\nended'); os._exit(0)",
            "left before its end with status 0",
        ),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
        ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
        ("x = bytearray(10**12)", "MemoryError"),
        ("x = []\nwhile True: x.append(bytearray(1 << 24))", "MemoryError"),
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "E"),
        ("raise ValueError('a\\nb' + 'x' * 10**6)", "ValueError: a bxxx"),
        ("raise ValueError('\\ud800')", "ValueError: ?"),
        ("x = '\udc80'\nraise ValueError('surrogate')", "UnicodeEncodeError"),
    ],
)
def test_a_program_that_does_not_reach_its_end_fails(run: Run, program: str, detail: str) -> None:
    result = run(program)
    assert result.status == "failed"
    assert detail in result.detail
    assert "\n" not in result.detail
    assert len(result.detail) < 400


@pytest.mark.parametrize(
    ("program", "source", "detail"),
    [
        ("def f(x): return x + 1", "assert f(1) == 2\nassert f(x=2) == 3", ""),
        ("def f(x): return x", "assert f(1) == 2", "AssertionError:"),
        ("def f(x): raise KeyError('a')", "f(1)", "KeyError: 'a'"),
        ("class E(ValueError): pass\ndef f(x): raise E('b')", "f(1)", "E: b"),
        ("def f(x): raise KeyError('a')", "try: f(1)\nexcept KeyError: pass", ""),
        (
            "class E(ValueError): pass\ndef f(x): raise E('b')",
            "try: f(1)\nexcept ValueError as e: assert str(e) == 'b'",
            "",
        ),
        ("def f(x): x.append(x[0]); x[0] = 9", "a = [1]\nf(a)\nassert a == [9, 1]", ""),
        ("def f(x): x['b'] = x.pop('a')", "a = {'a': 1}\nf(a)\nassert a == {'b': 1}", ""),
        (
            "def f(x): return (i * i for i in range(x))",
            "assert list(f(3)) == [0, 1, 4]\nassert f(3) != [0, 1, 4]",
            "",
        ),
        (
            "n = 0\ndef f():\n    global n\n    n += 1\n    return n",
            "assert [f(), f(), f()] == [1, 2, 3]",
            "",
        ),
        ("f = 5", "f()", "TypeError: 'int' object is not callable"),
        ("", "f()", "NameError: name 'f' is not defined"),
        ("raise ValueError('at once')", "f()", "ValueError: at once"),
        ("def f(x): return x", "assert f(10**5000) == 10**5000", ""),
        (
            "def f(x): return 'passed'",
            "raise ZeroDivisionError('by the tests')",
            "ZeroDivisionError: by the tests",
        ),
    ],
)
def test_tests_call_the_functions_of_the_program(
    run: Run, program: str, source: str, detail: str
) -> None:
    result = run(program, source, ["f"])
    assert (result.status, result.detail) == ("failed" if detail else "passed", detail)


def test_tests_take_other_names_from_trusted_source(run: Run) -> None:
    given = "def f(x): return 0\ndef twice(x): return 2 * x\n"
    program = "def f(x): return x * 2\ndef twice(x): raise ValueError\n"
    assert run(program, "assert f(4) == twice(4) == 8", ["f"], given).status == "passed"
    assert run(program, "assert f(4) == twice(4) == 8", [], given).status == "failed"


def test_tests_that_hand_over_what_cannot_travel_are_broken_not_failed(run: Run) -> None:
    result = run("def f(g): return g(1)", "f(lambda x: x)", ["f"])
    assert result.status == "broken"
    assert "no plain data" in result.detail


def test_an_object_of_the_program_that_comes_back_to_it_fails_it(run: Run) -> None:
    result = run("class E: pass\ndef f(x): return E()", "f(f(1))", ["f"])
    assert (result.status, result.detail.split(",")[0]) == ("failed", "TypeError: <E>")


def test_a_program_holds_its_pipes_and_nothing_of_the_caller(run: Run) -> None:
    # so that the descriptors passed on have great numbers
    held = [open(os.devnull) for _ in range(300)]  # noqa: SIM115, PTH123
    program = (
        "import os\ndef is_open(fd):\n    try: return bool(os.fstat(fd))\n    except "
        "OSError: return False\n"
        "def f(): return sum(map(is_open, range(5000)))"
    )
    result = run(program, "assert f() == 5", ["f"])
    for file in held:
        file.close()
    assert result.detail == ""


def test_a_program_that_closes_its_pipes_and_lives_on_fails(run: Run) -> None:
    result = run("import os, time\nos.closerange(3, 256)\ntime.sleep(60)")
    assert (result.status, result.detail, result.was_disturbed) == (
        "failed",
        "closed its pipes before its end",
        False,
    )


def test_a_description_is_the_same_in_all_runs(run: Run) -> None:
    assert run("raise ValueError(object(), lambda: 0, 'at 3')").detail == (
        "ValueError: (<object object at 0x...>, <function <lambda> at 0x...>, 'at 3')"
    )


def test_a_program_sees_nothing_of_its_tests(run: Run) -> None:
    program = (
        "import sys\ndef f(): return sorted(n for n in sys.modules if 'pipeline' in n), sys.argv"
    )
    assert run(program, "assert f() == ([], ['program.py'])", ["f"]).status == "passed"


def test_a_forked_copy_has_no_say(run: Run) -> None:
    result = run(
        "import os\nif os.fork():\n    os.wait()\n    raise ValueError('the program itself')\n"
    )
    assert (result.status, result.detail) == ("failed", "ValueError: the program itself")


def test_huge_output_is_discarded(run: Run) -> None:
    assert (
        run(
            "import sys\nfor _ in range(2000): print('x' * 10**5); print('y' * 10**5, "
            "file=sys.stderr)"
        ).status
        == "passed"
    )


def test_a_program_is_not_the_main_module(run: Run) -> None:
    assert run("if __name__ == '__main__': input()").status == "passed"


def test_a_set_has_one_order_in_all_runs(run: Run) -> None:
    details = {
        run("raise ValueError(list({'a', 'b', 'c', 'd', 'e', 'f', 'g'}))").detail for _ in range(4)
    }
    assert len(details) == 1


def test_packages_of_the_harness_cannot_be_imported(run: Run) -> None:
    for name in ("polars", "pipeline", "confined", "stats"):
        assert "ModuleNotFoundError" in run(f"import {name}").detail


def test_many_threads_get_their_own_verdicts() -> None:
    programs = [f"assert {i} % 2" for i in range(24)]
    with ThreadPoolExecutor(4) as pool:
        verdicts = [r.status for r in pool.map(strongest().run, programs)]
    assert verdicts == ["failed", "passed"] * 12
