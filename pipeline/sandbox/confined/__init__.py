"""The inside of the sandbox: what runs in processes of their own, never in the caller's.

The standard library alone is imported here.

    python -P -s -S -B confined serve                                    <>control socket
    python -P -s -S -B confined once LAYERS LIMITS TESTS_FD  <program    >records

Four kinds of process, each the child of the one before:

* the caller, `sandbox.run`: keeps the deadline and reads the records;
* the fork server (`server.py`), where namespaces work: a fresh interpreter behind a root of its own
  that never executes foreign code and never reads a request; without it, each tester starts as a
  fresh interpreter;
* the tester (`tester.py`), one for each program: puts up the walls, starts the program, then
  executes the tests *in its own process* and writes the records. It reads the tests only after the
  program has its own memory (`remote.py` is how it sees the program);
* the program (`program.py`), the only process that executes foreign code. It holds nothing but two
  pipes to its tester, over which plain data (`plain.py`) and the names of functions travel.

`kernel.py` and `landlock.py` hold what they ask of Linux. Records are lines of a nonce, a kind and
a detail:

* started: the program is confined and begins;
* passed, failed: the tests ran to their end, or something raised;
* cpu, killed, exited, closed: the program used up its CPU time, a signal ended it, it left by
  itself, or it closed its pipes and lives on;
* broken: the walls could not be put up;
* ended: none of the program's processes is left.
"""
