"""Starts a fork server or one tester; see `pipeline/sandbox/confined/__init__.py`."""

import os
import socket
import sys

sys.path.insert(0, os.path.normpath(os.path.abspath(__file__) + "/.." * 4))

from pipeline.sandbox.confined import kernel, server
from pipeline.sandbox.confined.remote import Request
from pipeline.sandbox.confined.tester import be_tester

del sys.path[0]  # whatever lies beside the package is not for programs to import


def main() -> None:
    """Read the command line.

    Standard input and output are the control socket, or else the program and the records.
    """
    role, *arguments = sys.argv[1:]
    kernel.die_first()
    first = os.dup(0)
    if role == "serve":
        kernel.silence()
        server.serve(socket.socket(fileno=first))
    else:
        records = os.dup(1)
        kernel.silence()
        layers, limits, given = arguments
        tests = os.dup(int(given))  # a low number, which the caller's need not be
        os.close(int(given))
        be_tester(Request(layers, limits, first, tests, records))
    os._exit(0)


if __name__ == "__main__":
    main()
