"""Is this machine deterministic enough for a date sweep? `python -m kernels_check` measures it.

A sweep compares completions bit by bit, so a row's result must not depend on who shares its batch,
on the order of work, or on whether its prefix came from the cache. `ops.py` asks this of single
kernels, `engine.py` of completions of the real engine, `verdict.py` says what it means. Nothing in
`pipeline` imports this package.
"""
