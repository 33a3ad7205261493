"""One untrusted program, judged by tests that it can neither see nor touch.

In: source text and `UnitTests`. Out: an `ExecutionResult`. Start at `run`; `confined/` is what runs
inside the walls, with the standard library alone. It is imported from within this package, so
nothing is imported here.
"""
