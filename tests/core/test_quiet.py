import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.core import quiet


def test_output_of_native_code_goes_to_the_log_too(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "x.log"
    code = "\n".join(
        [
            "import os, pathlib, sys",
            "from pipeline.core.quiet import redirect_output",
            "redirect_output(pathlib.Path(sys.argv[1]))",
            "print('a', flush=True)",
            "os.write(2, b'b')",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(log)], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert log.read_text() == "a\nb"
    assert quiet.tail(log, 1) == "b"
    assert quiet.tail(tmp_path / "none") == ""


def test_output_of_native_code_goes_to_the_log_and_comes_back_afterwards(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with pytest.raises(ZeroDivisionError), quiet.output_to(log):
        os.write(1, b"native out\n")
        os.write(2, b"native error\n")
        raise ZeroDivisionError
    os.write(1, b"after\n")
    assert log.read_text() == "native out\nnative error\n"
    assert capfd.readouterr() == ("after\n", "")
