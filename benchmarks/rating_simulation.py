"""Do the intervals cover and do the verdicts and gates keep their promises? Simulated, with known truths.

    python benchmarks/rating_simulation.py [--replications 1000] [--jobs 1] [--only coverage|verdicts|gates]

Prints Markdown tables. A world states chances per task, item and policy; the truth of a route is what that
route's estimator converges to (the fit of expected tables), so that a miss is a miss of the interval:

- anchored, pooled: the tasks are those drawn, their items a sample from infinitely many;
- hierarchical: the mean over the population of tasks that the drawn ones come from.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating import Comparisons, Settings, Usage, comparisons_from_outcomes, evaluate
from pytest_elo.rating.groups import fit_groups
from pytest_elo.rating.paired import noninferiority_test, regression_test
from pytest_elo.rating.scale import ELO_PER_LOGIT

Floats = NDArray[np.float64]
POLICIES = ("baseline", "tier1", "tier2", "tier3")
N = len(POLICIES)
FIRST, SECOND = np.triu_indices(N, 1)
MEAN_THETA = np.array([0.0, 30.0, 60.0, 100.0]) / ELO_PER_LOGIT
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@dataclass(frozen=True)
class World:
    """``task_effects(rng, T)`` draws (T, N) effects of tasks on policies, in Elo."""

    name: str
    sizes: tuple[int, ...]
    task_effects: Callable[[np.random.Generator, int], Floats]
    item_sd: float = 0.0
    """Elo; of the effect of an item on one policy"""
    repeats: int = 1
    ties: float = 0.2
    passfail: float | None = None
    """chance of the baseline to pass at the average item; ``None`` for judged votes"""
    token_sigma: float = 0.5
    """of log tokens"""

    def expected_share(self, theta: Floats) -> Floats:
        """(..., P) expected share of each pair at strengths (..., N) in logits."""
        if self.passfail is not None:
            chance = self.chances(theta[..., None, :], ITEM_SD * NODES[:, None])
            mean = np.einsum("k,...kn->...n", NODE_WEIGHTS, chance)
            return 0.5 + 0.5 * (mean[..., FIRST] - mean[..., SECOND])
        gap = theta[..., FIRST] - theta[..., SECOND]
        spread = np.sqrt(2.0) * self.item_sd / ELO_PER_LOGIT * NODES
        mean = np.einsum("k,...pk->...p", NODE_WEIGHTS, _logistic(gap[..., None] + spread))
        return 0.5 * self.ties + (1.0 - self.ties) * mean

    def chances(self, theta: Floats, difficulty: Floats) -> Floats:
        assert self.passfail is not None
        level = np.log(self.passfail / (1.0 - self.passfail))
        return _logistic(level + theta - difficulty)


ITEM_SD = 1.5
"""Logits; spread of difficulty of pass/fail items."""


def no_effects(rng: np.random.Generator, tasks: int) -> Floats:
    return np.zeros((tasks, N))


def normal_effects(sd: float) -> Callable[[np.random.Generator, int], Floats]:
    return lambda rng, tasks: rng.normal(0.0, sd, (tasks, N))


def heavy_effects(sd: float) -> Callable[[np.random.Generator, int], Floats]:
    """Student's t with 3 degrees of freedom, scaled to the standard deviation ``sd``."""
    return lambda rng, tasks: rng.standard_t(3, (tasks, N)) * sd / np.sqrt(3.0)


WORLDS = (
    World("homogeneous tasks", (40,) * 6, no_effects),
    World("heterogeneous tasks (SD 60)", (60,) * 8, normal_effects(60.0)),
    World("heterogeneous, unequal sizes", (25, 25, 40, 40, 80, 80, 150, 150), normal_effects(60.0)),
    World("heavy-tailed task effects (t3, SD 60)", (60,) * 8, heavy_effects(60.0)),
    World("repeated prompts (item SD 140, 5 votes)", (40,) * 6, normal_effects(30.0), item_sd=140.0, repeats=5),
    World("heavy-tailed tokens (log SD 1.2)", (60,) * 6, normal_effects(30.0), token_sigma=1.2),
    World("pass/fail at 60 %, 3 repeats", (60,) * 5, normal_effects(40.0), passfail=0.6, repeats=3),
    World("near-saturated pass/fail at 95 %", (100,) * 5, normal_effects(40.0), passfail=0.95, repeats=3),
)


def draw(world: World, rng: np.random.Generator, theta: Floats) -> tuple[Comparisons, Usage]:
    """One suite: comparisons and usage. ``theta`` is (T, N)."""
    unit_task = np.repeat(np.arange(len(world.sizes)), world.sizes)
    units = len(unit_task)
    names = {
        "tasks": tuple(f"task{t}" for t in range(len(world.sizes))),
        "items": tuple(f"item{k:04}" for k in range(units)),
        "policies": POLICIES,
    }
    hardness = rng.normal(size=units)
    if world.passfail is not None:
        chance = world.chances(theta[unit_task], ITEM_SD * hardness[:, None])
        scores = (rng.random((units, N, world.repeats)) < chance[:, :, None]).astype(float)
        unit, policy, repeat = (axis.ravel() for axis in np.indices(scores.shape))
        comparisons = comparisons_from_outcomes(
            **names, task=unit_task[unit], item=unit, policy=policy, repeat=repeat, score=scores.ravel()
        )
    else:
        effects = theta[unit_task] + rng.normal(0.0, world.item_sd / ELO_PER_LOGIT, (units, N))
        chance = _logistic(effects[:, FIRST] - effects[:, SECOND])[:, :, None]
        shape = (units, len(FIRST), world.repeats)
        share = np.where(rng.random(shape) < world.ties, 0.5, rng.random(shape) < chance).ravel()
        unit, pair, _ = (axis.ravel() for axis in np.indices(shape))
        comparisons = Comparisons(
            **names, task=unit_task[unit], item=unit, a=FIRST[pair], b=SECOND[pair], share=share,
            weight=np.full(len(share), 1.0 / world.repeats),
        )  # fmt: skip
    noise = 0.6 * hardness[:, None] + 0.8 * rng.normal(size=(units, N))
    tokens = token_scale(world)[unit_task] * np.exp(world.token_sigma * noise)
    unit, policy = (axis.ravel() for axis in np.indices((units, N)))
    return comparisons, Usage(**names, task=unit_task[unit], item=unit, policy=policy, tokens=tokens.ravel())


def token_scale(world: World) -> Floats:
    """(T, N) median tokens."""
    tasks = 1.0 + 0.5 * np.arange(len(world.sizes))
    return 200.0 * tasks[:, None] * 2.0 ** np.arange(N)[None, :]


def truths(world: World, theta: Floats) -> tuple[dict[str, Floats], Floats]:
    """(N,) true ΔElo by route for these tasks (hierarchical: see ``population``), and anchored Elo per 1k."""
    per_task = _pseudo_true(world.expected_share(theta))
    pooled = _pseudo_true(np.average(world.expected_share(theta), axis=0, weights=world.sizes)[None])[0]
    anchored = per_task.mean(axis=0)
    tokens = (token_scale(world) * np.exp(0.5 * world.token_sigma**2)).mean(axis=0)
    return {"anchored": anchored, "pooled": pooled}, 1000.0 * anchored / tokens


def population(world: World, draws: int = 40_000) -> Floats:
    """(N,) mean true ΔElo over the population of tasks."""
    rng = np.random.default_rng(99)
    theta = MEAN_THETA + world.task_effects(rng, draws) / ELO_PER_LOGIT
    return np.mean([_pseudo_true(world.expected_share(part)).mean(axis=0) for part in np.split(theta, 40)], axis=0)


def _pseudo_true(share: Floats) -> Floats:
    """(T, N) ΔElo of the fit to expected shares (T, P)."""
    tables = np.zeros((len(share), N, N))
    tables[:, FIRST, SECOND] = share
    tables[:, SECOND, FIRST] = 1.0 - share
    theta = fit_groups(tables, np.zeros_like(tables), "half").fit.theta
    return (theta - theta[:, :1]) * ELO_PER_LOGIT


def coverage(replications: int, jobs: int) -> None:
    print("| world | anchored | pooled | hierarchical | Elo/1k | no interval |\n|---|---|---|---|---|---|")
    with ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(_cover, range(len(WORLDS)), [replications] * len(WORLDS)):
            print(row, flush=True)


def _cover(number: int, replications: int) -> str:
    world = WORLDS[number]
    hits = dict.fromkeys(("anchored", "pooled", "hierarchical", "per 1k"), 0)
    total = dict.fromkeys(hits, 0)
    absent = 0
    mean = population(world)
    for replication in range(replications):
        rng = np.random.default_rng([7, number, replication])
        theta = MEAN_THETA + world.task_effects(rng, len(world.sizes)) / ELO_PER_LOGIT
        report = evaluate(*draw(world, rng, theta), Settings(anchor="baseline"))
        true, per_1k = truths(world, theta)
        true["hierarchical"] = mean
        for row in report.policies[1:]:
            j = POLICIES.index(row.policy)
            pairs = [(route, measure, true[route][j]) for route, measure in row.by_route]
            for kind, measure, truth in (*pairs, ("per 1k", row.elo_per_1k, per_1k[j])):
                interval = measure.interval
                if interval is None or interval.low is None or interval.high is None:
                    absent += 1
                    continue
                total[kind] += 1
                hits[kind] += interval.low <= truth <= interval.high
    cells = " | ".join(f"{100.0 * hits[kind] / max(total[kind], 1):.1f}" for kind in hits)
    return f"| {world.name} | {cells} | {absent} |"


def verdicts(replications: int, jobs: int) -> None:
    """Four tiers at 400, 800, 1600, 3200 tokens; the last step is worth 0 or 8 Elo per 1k, worth is 5."""
    print("| truth, items | HARMFUL | PLATEAU | DECAY | CONTINUE | UNDECIDED |\n|---|---|---|---|---|---|")
    gains = {
        "plateau (0)": (0.0, 25.0, 40.0, 40.0),
        "growth (8 Elo/1k)": (0.0, 25.0, 40.0, 40.0 + 8.0 * 1.6),
        "growth (15 Elo/1k)": (0.0, 25.0, 40.0, 40.0 + 15.0 * 1.6),
        "harm (-15 Elo/1k)": (0.0, 25.0, 40.0, 40.0 - 15.0 * 1.6),
    }
    runs = [(number, name, elo, items) for number, (name, elo) in enumerate(gains.items()) for items in (20, 100, 500)]
    with ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(_judge, runs, [replications] * len(runs)):
            print(row, flush=True)


def _judge(run: tuple[int, str, tuple[float, ...], int], replications: int) -> str:
    number, name, elo, items = run
    counts = dict.fromkeys(("HARMFUL", "PLATEAU", "DECAY", "CONTINUE", "UNDECIDED"), 0)
    for replication in range(replications):
        rng = np.random.default_rng([11, number, items, replication])
        comparisons, usage = ladder_run(np.array(elo), items, rng)
        report = evaluate(comparisons, usage, Settings(anchor="baseline", ladders=(POLICIES,)))
        counts[report.ladders[0].verdict.code] += 1
    cells = " | ".join(f"{100.0 * count / replications:.1f}" for count in counts.values())
    return f"| {name}, {items} | {cells} |"


def ladder_run(elo: Floats, items: int, rng: np.random.Generator) -> tuple[Comparisons, Usage]:
    """Pass/fail outcomes whose half-tie ΔElo to the baseline is ``elo``, shared difficulty by item."""
    win = 1.0 / (1.0 + 10.0 ** (-elo / 400.0))
    accuracy = 0.5 + 2.0 * (win - 0.5)
    shared = rng.normal(size=(items, 1))
    own = rng.normal(size=(items, N))
    threshold = np.quantile(np.random.default_rng(1).normal(size=200_000), 1.0 - accuracy)
    score = (np.sqrt(0.7) * shared + np.sqrt(0.3) * own > threshold).astype(float)
    item, policy = (axis.ravel() for axis in np.indices(score.shape))
    names = {"tasks": ("t",), "items": tuple(f"item{k:04}" for k in range(items)), "policies": POLICIES}
    zero = np.zeros_like(item)
    comparisons = comparisons_from_outcomes(
        **names, task=zero, item=item, policy=policy, repeat=zero, score=score.ravel()
    )
    noise = np.exp(0.4 * (-0.6 * shared + 0.8 * rng.normal(size=(items, N))))
    tokens = 400.0 * 2.0 ** np.arange(N) * noise / np.exp(0.08)
    return comparisons, Usage(**names, task=zero, item=item, policy=policy, tokens=tokens.ravel())


def gates(replications: int, jobs: int) -> None:
    print("| gate | truth | n = 50 | n = 200 | n = 500 |\n|---|---|---|---|---|")
    for name, truth, count in GATES:
        rates = []
        for items in (50, 200, 500):
            rng = np.random.default_rng([13, items])
            rates.append(sum(count(rng, items) for _ in range(replications)) / replications)
        print(f"| {name} | {truth} | " + " | ".join(f"{100.0 * rate:.1f}" for rate in rates) + " |", flush=True)


def _pairs(rng: np.random.Generator, items: int, discordant: float, drop: float) -> tuple[Floats, Floats]:
    """Pass/fail of main and new: a share ``discordant`` of items differs, new is worse by ``drop``."""
    kind = rng.random(items)
    worse, better = 0.5 * (discordant + drop), 0.5 * (discordant - drop)
    main = np.where(kind < worse, 1.0, np.where(kind < worse + better, 0.0, (rng.random(items) < 0.7) * 1.0))
    new = np.where(kind < worse, 0.0, np.where(kind < worse + better, 1.0, main))
    return main, new


def _seeded(rng: np.random.Generator, items: int, drop: float) -> tuple[Floats, Floats]:
    """Means of four seeds an item with a shared difficulty."""
    chance = rng.beta(2.0, 1.0, items)
    main = rng.binomial(4, chance) / 4.0
    new = rng.binomial(4, np.clip(chance - drop, 0.0, 1.0)) / 4.0
    return main, new


def _alarm(main: Floats, new: Floats) -> bool:
    return regression_test(new, main).answer == "fail"


def _lets_pass(main: Floats, new: Floats) -> bool:
    return noninferiority_test(new, main, margin=0.05).answer == "pass"


GATES: tuple[tuple[str, str, Callable[[np.random.Generator, int], bool]], ...] = (
    ("naive `new < main` alarms", "no change", lambda rng, n: _naive(*_pairs(rng, n, 0.2, 0.0))),
    ("regression, pass/fail: false alarms", "20 % differ", lambda rng, n: _alarm(*_pairs(rng, n, 0.2, 0.0))),
    ("regression, pass/fail: alarms", "10 points worse", lambda rng, n: _alarm(*_pairs(rng, n, 0.2, 0.1))),
    ("regression, 4 seeds: false alarms", "no change", lambda rng, n: _alarm(*_seeded(rng, n, 0.0))),
    ("non-inferiority 5 points, pass/fail: false passes", "5 points worse, 20 % differ",
     lambda rng, n: _lets_pass(*_pairs(rng, n, 0.2, 0.05))),
    ("non-inferiority 5 points, pass/fail: false passes", "5 points worse, 10 % differ",
     lambda rng, n: _lets_pass(*_pairs(rng, n, 0.1, 0.05))),
)  # fmt: skip


def _naive(main: Floats, new: Floats) -> bool:
    return bool(new.mean() < main.mean())


def _logistic(x: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def parts() -> Iterator[tuple[str, Callable[[int, int], None]]]:
    yield "coverage", coverage
    yield "verdicts", verdicts
    yield "gates", gates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=[name for name, _ in parts()])
    options = parser.parse_args()
    for name, part in parts():
        if options.only in (None, name):
            print(f"\n### {name}, {options.replications} replications\n")
            part(options.replications, options.jobs)


if __name__ == "__main__":
    main()
