"""One untrusted program, judged by tests that it can neither see nor touch.

In: source text and `UnitTests`. Out: an `ExecutionResult`. Start at `run.py`: a `Sandbox` is a set
of layers with limits, a value that is chosen once (`offers.strongest`) and handed to every worker,
so that all confine alike. `launch.py` and `fork_server.py` start processes, `verdict.py` reads what
they say, `machine_lock.py` lets a program have the machine to itself, and `confined/` is what runs
inside the walls, with the standard library alone. It is imported from within this package, so
nothing is imported here.

**Verdicts.** The tests run in a process of their own, the tester, which never executes a line of
the program. It calls the program's functions over a pipe, and plain data come back
(`confined/plain.py` lists the types). So Python's own `==` compares Python's own types: no object
with a false `__eq__`, no patched built-in, no exit status, no output and no search through memory
makes a wrong program pass. The records that say so carry a nonce that the program's process never
held. A program passes by returning the right values, or not at all.

What that leaves: a program may know a public benchmark's answers by heart. Without tests, that a
program reached its end is its own word. Tests cannot hand the program functions, nor compare
objects of its classes. What tests need beside the functions under test comes from trusted source,
so a program that redefines a helper or a built-in to please its tests gains nothing.

**Walls.** Each program has fresh processes with the standard library alone, a scrubbed environment,
an empty folder that is deleted, no input, discarded output, and limits on CPU time, memory, file
size, open files and, where the kernel can count them, processes. The deadline is kept by the
caller; past it, all that the program started is killed. `offers()` says which layers this machine
adds:

* namespaces: no other process in sight, no network of any kind, a folder in memory of bounded size,
  and a read-only root of nothing but the interpreter, /usr and four devices: no home, no run
  folder, no /proc, no sockets of daemons (Linux 5.12);
* bubblewrap: nearly the same by `bwrap`, where only that program may make namespaces;
* Landlock: outside its folder a program writes nothing and reads no more than the above; no TCP
  (Linux 6.7); no signals to others (6.12);
* nobody: where the caller is root, programs run as the user `nobody`.

The strongest set that passes a trial is used. Namespaces come before bubblewrap since they hold
more and a fork server of ours then shares the interpreter's start-up; it stands behind the same
root, executes nothing of anyone's, and each program is still a process of its own.

**Not covered.** Bugs of the kernel. The memory of many processes together: each has its limit, and
the kernel is asked to end them first. Files in memory (`memfd_create`) and what waits in pipes and
sockets: only the number of open descriptors bounds them. Under bubblewrap alone a program can kill
its own tester, which fails it. System V shared memory has no bound but in our own namespaces, where
/proc/sys can be written. Without namespaces and bubblewrap it outlasts the program, which also
reaches its user's keyring in the kernel, daemons' sockets and the network by other protocols than
TCP, and sees other processes; before Linux 6.12 it may also kill those of its user, and if it kills
its tester, leave processes behind; its disk use is bounded for each file only, and a fork bomb of
an ordinary user or of root lasts until the deadline. Without Landlock as well, it reads and writes
whatever its user can. Against a determined author use a throw-away machine.
"""
