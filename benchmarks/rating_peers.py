"""Ratings from votes, side by side with peers in one run: CPU seconds, medians.

    python -m venv peers
    peers/bin/pip install -e . evalica choix arenakit scikit-learn pandas scipy tqdm
    git clone https://github.com/lm-sys/FastChat
    FASTCHAT=FastChat env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \\
        peers/bin/python benchmarks/rating_peers.py [--runs 3] [--only NAME ...]

A peer that is not installed leaves its rows out and says so. FastChat's package cannot be imported without
torch, so its rows load one file of a clone, ``fastchat/serve/monitor/rating_systems.py``; the estimator of the
released package (fschat 0.2.36, scikit-learn's logistic regression on resampled rows) is restated here.

Every cell runs in its own process with one BLAS thread, which prepares its natural input first; the clock
covers from that input to ratings, children included. Runs of a case are interleaved, so that a busy spell
hits all. ``OPENBLAS_CORETYPE`` and ``OPENBLAS_L2_SIZE``, where an environment sets them, hold OpenBLAS to older
kernels: unset them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ELO = 400.0 / np.log(10.0)

Timed = Callable[[], Any]
Case = Callable[[int, int], Timed]


def votes(n: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Strengths of SD 150 Elo, lognormal popularity, a tenth of ties; outcome is twice the score of a."""
    rng = np.random.default_rng([n, size])
    theta = rng.normal(0.0, 150.0 / ELO, n)
    popularity = rng.lognormal(0.0, 1.0, n)
    a = rng.choice(n, size, p=popularity / popularity.sum())
    b = (a + rng.integers(1, n, size)) % n
    chance = 1.0 / (1.0 + np.exp(theta[b] - theta[a]))
    tie = 0.44 * chance * (1.0 - chance)
    u = rng.random(size)
    outcome = np.where(u < tie, 1, np.where(u < chance + 0.5 * tie, 2, 0))
    return a.astype(np.int32), b.astype(np.int32), outcome.astype(np.int8)


def names(codes: np.ndarray) -> list[str]:
    """Separate strings, as a reader of a file would hold them."""
    return [f"model-{code:04}" for code in codes.tolist()]


def ours_from_ids(n: int, size: int) -> Timed:
    from pytest_elo.rating.bradley_terry import bradley_terry
    from pytest_elo.rating.votes import count_votes

    a, b, outcome = votes(n, size)
    return lambda: bradley_terry(*count_votes(a, b, outcome, n)).theta


def ours_from_names(n: int, size: int) -> Timed:
    from pytest_elo.rating.bradley_terry import bradley_terry
    from pytest_elo.rating.votes import count_votes, intern_names

    a, b, outcome = votes(n, size)
    left, right = names(a), names(b)

    def run() -> Any:
        found, first, second = intern_names(left, right)
        return bradley_terry(*count_votes(first, second, outcome, len(found))).theta

    return run


def evalica_fit(n: int, size: int) -> Timed:
    import evalica

    a, b, outcome = votes(n, size)
    left, right = names(a), names(b)
    winner = [evalica.Winner.Y, evalica.Winner.Draw, evalica.Winner.X]
    won = [winner[code] for code in outcome.tolist()]
    return lambda: evalica.bradley_terry(left, right, won).scores


def choix_fit(n: int, size: int) -> Timed:
    """Its natural input is a list of (winner, loser); it has no ties, so they are left out."""
    import choix  # type: ignore[import-not-found]

    a, b, outcome = votes(n, size)
    won, lost = np.where(outcome == 2, a, b), np.where(outcome == 2, b, a)
    pairs = list(zip(won[outcome != 1].tolist(), lost[outcome != 1].tolist(), strict=True))
    return lambda: choix.ilsr_pairwise(n, pairs)


def ours_from_table(n: int, size: int) -> Timed:
    from pytest_elo.rating.bradley_terry import bradley_terry
    from pytest_elo.rating.votes import count_votes

    wins, ties = count_votes(*votes(n, size), n)
    return lambda: bradley_terry(wins, ties).theta


def choix_from_table(n: int, size: int) -> Timed:
    import choix

    from pytest_elo.rating.votes import count_votes

    wins, ties = count_votes(*votes(n, size), n)
    return lambda: choix.ilsr_pairwise_dense(wins + 0.5 * ties)


def battles(n: int, size: int) -> Any:
    """FastChat's natural input, a data frame of names."""
    import pandas as pd  # type: ignore[import-untyped]

    a, b, outcome = votes(n, size)
    label = np.array(["model_b", "tie", "model_a"], dtype=object)
    return pd.DataFrame({"model_a": names(a), "model_b": names(b), "winner": label[outcome]})


def fastchat() -> Any:
    path = Path(os.environ["FASTCHAT"]) / "fastchat/serve/monitor/rating_systems.py"
    spec = importlib.util.spec_from_file_location("rating_systems", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its pool pickles the module's functions by name.
    sys.modules["rating_systems"] = module
    spec.loader.exec_module(module)
    return module


def fastchat_fit(n: int, size: int) -> Timed:
    module, frame = fastchat(), battles(n, size)
    return lambda: module.compute_bt(frame)


def ours_aggregate(n: int, size: int) -> Timed:
    from pytest_elo.rating.votes import count_votes

    a, b, outcome = votes(n, size)
    return lambda: count_votes(a, b, outcome, n)


def bare_bincount(n: int, size: int) -> Timed:
    a, b, outcome = votes(n, size)
    key = (a.astype(np.int64) * n + b) * 3 + outcome
    return lambda: np.bincount(key, minlength=3 * n * n)


ROUNDS = 1000


def ours_bootstrap(n: int, size: int) -> Timed:
    from pytest_elo.rating.bradley_terry import bootstrap_ratings
    from pytest_elo.rating.votes import count_votes

    a, b, outcome = votes(n, size)
    return lambda: bootstrap_ratings(*count_votes(a, b, outcome, n), rounds=ROUNDS)


def fastchat_bootstrap(n: int, size: int) -> Timed:
    """Its own ``compute_bootstrap_bt``, twenty rounds in one worker, scaled to a thousand."""
    module, frame = fastchat(), battles(n, size)
    return lambda: module.compute_bootstrap_bt(frame, 20, num_cpu=1)


def sklearn_bootstrap(n: int, size: int) -> Timed:
    """What fschat 0.2.36 does a round, two rounds, scaled to a thousand: rows drawn with replacement and
    doubled, a dense design with ln 10 for one side and -ln 10 for the other, logistic regression on it."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    frame = battles(n, size)

    def run() -> Any:
        return [fit(frame.sample(frac=1.0, replace=True, random_state=number)) for number in range(2)]

    def fit(drawn: Any) -> Any:
        order = {name: k for k, name in enumerate(sorted(set(drawn["model_a"]) | set(drawn["model_b"])))}
        left, right = (np.tile(drawn[side].map(order).to_numpy(), 2) for side in ("model_a", "model_b"))
        design = np.zeros((len(left), len(order)))
        design[np.arange(len(left)), left] = np.log(10.0)
        design[np.arange(len(left)), right] = -np.log(10.0)
        won, tied = (np.tile((drawn["winner"] == label).to_numpy(), 2) for label in ("model_a", "tie"))
        tied[len(drawn) :] = False
        return LogisticRegression(fit_intercept=False).fit(design, won | tied).coef_

    return run


def arenakit_bootstrap(n: int, size: int) -> Timed:
    """Its own bootstrap over cells, twenty rounds, scaled to a thousand."""
    from arenakit import Arena, Battle, bootstrap  # type: ignore[import-not-found]

    a, b, outcome = votes(n, size)
    label = ["b", "tie", "a"]
    arena = Arena(
        [
            Battle(model_a=x, model_b=y, winner=label[code])
            for x, y, code in zip(names(a), names(b), outcome.tolist(), strict=True)
        ]
    )
    return lambda: bootstrap(arena, n_resamples=20)


def session_finish(n: int, size: int) -> Timed:
    """Ten strategies, twenty tasks, 10,000 comparisons each: the whole report with all three routes."""
    from pytest_elo.rating import Comparisons, Settings, Usage, evaluate

    tasks, items = 20, size // (20 * 45)
    rng = np.random.default_rng(1)
    first, second = np.triu_indices(n, 1)
    task, item, pair = (axis.ravel() for axis in np.indices((tasks, items, len(first))))
    theta = np.linspace(0.0, 1.0, n) + rng.normal(0.0, 0.3, (tasks, n))
    chance = 1.0 / (1.0 + np.exp(theta[task, second[pair]] - theta[task, first[pair]]))
    share = np.where(rng.random(len(pair)) < 0.3, 0.5, rng.random(len(pair)) < chance)
    order = rng.permutation(len(pair))
    known = {
        "tasks": tuple(f"task{t:02}" for t in range(tasks)),
        "items": tuple(f"item{k:03}" for k in range(items)),
        "policies": ("baseline", *(f"tier{j}" for j in range(1, n))),
    }
    comparisons = Comparisons(
        **known, task=task[order], item=item[order], a=first[pair][order], b=second[pair][order],
        share=share[order], weight=np.ones(len(pair)),
    )  # fmt: skip
    task, item, policy = (axis.ravel() for axis in np.indices((tasks, items, n)))
    usage = Usage(**known, task=task, item=item, policy=policy, tokens=rng.lognormal(6.0 + 0.2 * policy, 0.7))
    settings = Settings(anchor="baseline", ladders=(known["policies"],))
    return lambda: evaluate(comparisons, usage, settings)


CASES: dict[str, tuple[Case, int, int, float]] = {
    "fit ids, 100 x 1M, ours": (ours_from_ids, 100, 10**6, 1.0),
    "fit names, 100 x 1M, ours": (ours_from_names, 100, 10**6, 1.0),
    "fit names, 100 x 1M, evalica": (evalica_fit, 100, 10**6, 1.0),
    "fit pairs, 100 x 1M, choix": (choix_fit, 100, 10**6, 1.0),
    "fit frame, 100 x 1M, FastChat": (fastchat_fit, 100, 10**6, 1.0),
    "fit table, 100 x 1M, ours": (ours_from_table, 100, 10**6, 1.0),
    "fit table, 100 x 1M, choix": (choix_from_table, 100, 10**6, 1.0),
    "fit table, 1000 x 1M, ours": (ours_from_table, 1000, 10**6, 1.0),
    "fit table, 1000 x 1M, choix": (choix_from_table, 1000, 10**6, 1.0),
    "fit ids, 1000 x 1M, ours": (ours_from_ids, 1000, 10**6, 1.0),
    "fit names, 1000 x 1M, evalica": (evalica_fit, 1000, 10**6, 1.0),
    "fit ids, 100 x 10M, ours": (ours_from_ids, 100, 10**7, 1.0),
    "fit names, 100 x 10M, evalica": (evalica_fit, 100, 10**7, 1.0),
    "aggregate ids, 100 x 10M, ours": (ours_aggregate, 100, 10**7, 1.0),
    "aggregate key, 100 x 10M, np.bincount": (bare_bincount, 100, 10**7, 1.0),
    "1000 rounds, 100 x 100k, ours": (ours_bootstrap, 100, 10**5, 1.0),
    "1000 rounds, 100 x 100k, arenakit": (arenakit_bootstrap, 100, 10**5, ROUNDS / 20),
    "1000 rounds, 100 x 100k, FastChat": (fastchat_bootstrap, 100, 10**5, ROUNDS / 20),
    "1000 rounds, 100 x 100k, FastChat-like sklearn": (sklearn_bootstrap, 100, 10**5, ROUNDS / 2),
    "session finish, 10 strategies x 20 tasks x 10k": (session_finish, 10, 200_000, 1.0),
}
"""name: (case, policies, votes, factor from what is timed to what is named)"""


def child(name: str) -> None:
    """Prepare, time once, print seconds and the growth of the resident set in MB."""
    case, n, size, factor = CASES[name]
    run = case(n, size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time() + _children()
    run()
    spent = time.process_time() + _children() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
    print(json.dumps({"seconds": spent * factor, "grown_mb": grown}))


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="parts of names")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    chosen = [name for name in CASES if not options.only or any(part in name for part in options.only)]
    for peer in ("evalica", "choix", "arenakit", "sklearn", "pandas", "scipy"):
        if importlib.util.find_spec(peer) is None:
            print(f"{peer} is not installed: its rows are left out", file=sys.stderr)
    if "FASTCHAT" not in os.environ:
        print("FASTCHAT names no clone of FastChat: its rows are left out", file=sys.stderr)
    root = str(Path(__file__).parent.parent)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": root}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
    for _ in range(options.runs):
        for name in chosen:
            done = subprocess.run(
                [sys.executable, __file__, "--child", name], env=environment, capture_output=True, text=True
            )
            if done.returncode == 0:
                found[name].append(json.loads(done.stdout.splitlines()[-1]))
            elif not found[name]:
                print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    print("| case | CPU s, median | runs | RSS grown, MB |\n|---|---|---|---|")
    for name, runs in found.items():
        if runs:
            seconds = statistics.median(run["seconds"] for run in runs)
            grown = max(run["grown_mb"] for run in runs)
            print(f"| {name} | {seconds:.4g} | {len(runs)} | {grown:.0f} |")


if __name__ == "__main__":
    main()
