"""Gates: conditions on a run's scores, ratings and tokens that decide the exit code.

``parse`` reads one line, ``judge`` answers it from a finished run and stored ones. See ``docs/gates.md``.
"""

from pytest_elo.gates.judge import Judging, judge
from pytest_elo.gates.judged import JudgedRun
from pytest_elo.gates.language import Gate, parse
from pytest_elo.gates.results import GateResult, exit_code
from pytest_elo.gates.snapshot import Snapshot, snapshot_of
from pytest_elo.gates.words import gate_lines

__all__ = [
    "Gate",
    "GateResult",
    "JudgedRun",
    "Judging",
    "Snapshot",
    "exit_code",
    "gate_lines",
    "judge",
    "parse",
    "snapshot_of",
]
