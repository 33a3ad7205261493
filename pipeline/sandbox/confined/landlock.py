"""Landlock: what a program may do with files, TCP and signals, by its own kernel's promise."""

import ctypes
import os
import struct
from collections.abc import Iterable

from pipeline.sandbox.confined.kernel import call

# Numbers of <linux/landlock.h>. https://docs.kernel.org/userspace-api/landlock.html
CREATE, ADD_RULE, RESTRICT = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
NUM_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Rights on files by Landlock version; 16 from version 5 on."""


def version() -> int:
    """The kernel's Landlock version, from 1.

    Raises:
        OSError: it has none, or it is switched off.
    """
    return call("syscall", CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))


def restrict_files(paths: Iterable[str]) -> None:
    """Allow writing in the working folder only, reading there and beneath `paths`.

    No TCP, no signals to processes outside.
    """
    present = version()
    everything = (1 << NUM_FS_RIGHTS.get(present, 16)) - 1
    tcp, scopes = (3 if present >= 4 else 0), (3 if present >= 6 else 0)
    size = 24 if present >= 6 else 16 if present >= 4 else 8
    rights = struct.pack("=QQQ", everything, tcp, scopes)[:size]
    ruleset = call("syscall", CREATE, rights, ctypes.c_size_t(size), 0)
    _allow(ruleset, ".", everything)
    for path in paths:
        is_folder = os.path.isdir(path)
        _allow(ruleset, path, EXECUTE | READ_FILE | READ_DIR if is_folder else READ_FILE)
    _allow(ruleset, os.devnull, READ_FILE | WRITE_FILE)
    call("syscall", RESTRICT, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Add to the `ruleset` what may be done beneath `path`."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    call("syscall", ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
    os.close(fd)
