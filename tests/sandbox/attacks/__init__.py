"""Hostile programs, by what they are after."""

from tests.sandbox.attacks.base import SOUND as SOUND, TESTS as TESTS, Attack as Attack
from tests.sandbox.attacks.eyes import EYES
from tests.sandbox.attacks.memory_and_files import MEMORY_AND_FILES
from tests.sandbox.attacks.privileges import PRIVILEGES
from tests.sandbox.attacks.processes import PROCESSES
from tests.sandbox.attacks.verdicts import VERDICTS as VERDICTS

ATTACKS = [*VERDICTS, *PROCESSES, *MEMORY_AND_FILES, *EYES, *PRIVILEGES]
