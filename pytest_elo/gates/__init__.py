"""Gates: conditions on a run's scores, ratings and tokens that decide the exit code. See ``docs/gates.md``.

``language.parse`` reads one line; ``judge.judge`` answers it from a finished run and stored ones.
"""
