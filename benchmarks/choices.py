"""``python -m benchmarks choices --cluster SPEC``: whether the plan predicted best is the best one measured.

Sets of tables are drawn from a seed; each gets seven plans for the ranks of this machine's cores: at random,
contiguous, greedy by size, by lookups and by cost, the largest table by rows with the others by cost, and the search's.
All plans of a set are held by the same processes and trained by turns of a few iterations, in another order each round;
the processes are started anew a few times. What all plans of a round have in common is taken out; planners that agree
are one plan. A hit is a predicted best whose measured time is within the noise, or 2 %, of the measured best; regret is
what it loses. ``--keep DIR`` keeps the plans and their rows; ``--again DIR`` predicts those plans anew and measures
nothing (a search might find other plans by then).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import trim_mean

from benchmarks.calm import PATIENCE_S, wait_for_calm
from benchmarks.kept import ROWS, folder_of, kept_in
from benchmarks.rows import Row, append, read
from dlrmsim.hosts.training import SCHEDULE
from dlrmsim.output.measurement import read_measurement
from scenarios.prepare import with_plan
from scenarios.progress import Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from simulator.operators import FloatArray
from trainer.bench_rounds import train_in_rounds
from trainer.bench_series import SCENARIO
from trainer.pin import usable_cores
from trainer.runs import Run
from validation.measured import Times, spread_pct
from validation.measured_prediction import anywhere, predict
from validation.random_jobs import MOST_TABLES, Limits, random_job
from validation.yardstick import slowness, usual_s

PLANNERS = ("greedy_size", "greedy_lookups", "greedy", "search")
TOLERANCE = 0.02
"""Of the best time: a choice that loses no more is a hit."""
LIMITS = Limits(table_bytes=4e8, gathered_bytes=1e9, flops=6e9)
"""Of jobs: all plans of a set are in the memory at once, with two states each at the most."""
DRAWS = 200
"""Of measurements that noise might have made of right predictions."""
HITS_SHARE, MOST_REGRET_PCT = 17 / 20, 2.0
"""Asked of all sets."""
TURN_S, LEAST_ITERATIONS, MOST_ITERATIONS = 0.4, 2, 20
"""For how long a plan is trained in each turn, and how many iterations that are."""
START_S, LEAST_ROUNDS, MOST_ROUNDS = 100.0, 12, 80
"""For how long all plans are trained in the same processes, and how many rounds that are."""
TRIMMED = 0.1
"""Share of a start's rounds, of the fastest and of the slowest, that count for nothing in the geometric mean of all."""
SET, TURNS = "set_", "turns.json"
"""A set's folder of ``--keep`` begins with this; in it, what each plan's iterations took in each start's turns,
seconds."""
MODULE = "model.sparse_arch.embedding_bag_collection"
"""Where plans of TorchRec have their tables."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What is asked for: sets, seed, machine, starts of each set, file of rows, whether to go on behind those, minutes.

    ``keep`` is a folder for plans and rows, None: they are not kept.
    """

    sets: int
    seed: int
    cluster: str
    starts: int
    file: Path
    resume: bool
    minutes: float
    keep: Path | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """A plan: predicted time, measured time of each start, the middle of its rounds, seconds."""

    plan: str
    predicted_s: float
    starts_s: tuple[float, ...]

    @property
    def measured_s(self) -> float:
        """The median over starts."""
        return float(np.median(self.starts_s))

    @property
    def noise(self) -> float:
        """Half the spread of the middle half of starts over their median."""
        return spread_pct(np.array(self.starts_s)) / 100.0


def rows(asked: Choices) -> Iterator[Row]:
    """Try the plans of every set that has not been tried, then count."""
    end = time.monotonic() + 60.0 * asked.minutes
    before = tried_before(asked.file, asked.seed, Path(asked.cluster).stem) if asked.resume else {}
    done = {number: tried for number, tried in before.items() if number < asked.sets}
    if not asked.resume:
        asked.file.unlink(missing_ok=True)
    for number in range(asked.sets):
        if number not in done:
            if time.monotonic() > end:
                continue
            with folder_of(asked.keep and asked.keep / f"{SET}{number}") as folder:
                (folder / ROWS).unlink(missing_ok=True)  # of another study: it tells that a set is whole
                done[number] = _tried(asked, number, folder)
                for file in (asked.file, folder / ROWS):
                    append(file, _rows(asked.seed, asked.cluster, number, done[number]))
        yield Row(f"set_{number}_regret", 100.0 * judged(done[number])[2], "%")
    yield from _told(done)


def again(kept: Path, cluster: str, out: Path | None) -> Iterator[Row]:
    """The same over the plans that a study kept, predicted anew on a machine; nothing is measured.

    Args:
        kept: the study's ``--keep``.
        cluster: name or path of the machine.
        out: file to append rows to, if any.

    Raises:
        InputError: nothing is kept there, or the file has other columns.
    """
    done = {}
    for number, folder in kept_in(kept, SET).items():
        then = read(folder / ROWS)[1]
        done[number] = [
            replace(tried, predicted_s=predict(_kept_plan(folder / tried.plan, cluster)).iteration_s)
            for tried in map(_tried_of, then)
        ]
        if out is not None:
            append(out, _rows(then[0]["seed"], cluster, number, done[number]))
        yield Row(f"set_{number}_regret", 100.0 * judged(done[number])[2], "%")
    yield from _told(done)


def _kept_plan(folder: Path, cluster: str) -> ResolvedScenario:
    return load_scenario(folder / SCENARIO, [f"cluster={anywhere(cluster)}"])


def _told(done: Mapping[int, Sequence[Tried]]) -> Iterator[Row]:
    if not done:
        return
    hits, exact, regret = zip(*map(judged, done.values()), strict=True)
    noise = [float(np.median([plan.noise for plan in tried])) for tried in done.values()]
    yield Row("choices_sets", len(done), "sets")
    yield Row("choices_hits", sum(hits), "sets", f">= {math.ceil(HITS_SHARE * len(hits))}")
    yield Row("choices_hits_without_tolerance", sum(exact), "sets")
    yield Row("choices_noise", 100.0 * float(np.median(noise)), "%")
    yield Row("choices_mean_regret", 100.0 * float(np.mean(regret)), "%", f"<= {MOST_REGRET_PCT:g}")
    yield from _plans_told(list(done.values()))
    if any(len(plan.starts_s) < 2 for tried in done.values() for plan in tried):
        return  # nothing tells how far starts differ
    by_chance = np.array([were_it_right(tried, np.random.default_rng(number)) for number, tried in done.items()])
    yield Row("choices_hits_were_it_right", float(by_chance[:, 0].sum()), "sets")
    yield Row("choices_regret_were_it_right", 100.0 * float(by_chance[:, 1].mean()), "%")


def _plans_told(sets: Sequence[Sequence[Tried]]) -> Iterator[Row]:
    """How far times are off over all plans, and what the plans of each maker lose."""
    off_pct = [100.0 * (plan.predicted_s / plan.measured_s - 1.0) for tried in sets for plan in tried]
    yield Row("choices_times_mape", float(np.mean(np.abs(off_pct))), "%")
    yield Row("choices_times_bias", float(np.mean(off_pct)), "%")
    losses = [lost(tried) for tried in sets]
    for maker in losses[0]:
        of_sets_pct = [100.0 * of_set[maker] for of_set in losses]
        yield Row(f"lost_by_{maker}", float(np.mean(of_sets_pct)), "%")
        yield Row(f"lost_by_{maker}_at_most", max(of_sets_pct), "%")


def judged(tried: Sequence[Tried]) -> tuple[bool, bool, float]:
    """Whether the plan predicted best is a hit, whether it is the best one measured, and its regret."""
    chosen = min(tried, key=lambda plan: plan.predicted_s)
    best = min(tried, key=lambda plan: plan.measured_s)
    regret = chosen.measured_s / best.measured_s - 1.0
    return regret <= max(TOLERANCE, chosen.noise, best.noise), chosen is best, regret


def lost(tried: Sequence[Tried]) -> dict[str, float]:
    """What each maker's plan takes longer than the best one measured, a share of that; makers that agree have one."""
    best_s = min(plan.measured_s for plan in tried)
    return {maker: plan.measured_s / best_s - 1.0 for plan in tried for maker in plan.plan.split("+")}


def were_it_right(tried: Sequence[Tried], random: np.random.Generator) -> tuple[float, float]:
    """Share of hits and mean regret that noise alone would leave: what the same measurement says were each plan right.

    Starts are drawn about the predicted times, as far from them as those of a plan are from one another. What all plans
    have in common was taken out of these (`evened`), and with it a part of what each is off by itself; so more is
    drawn, and what they have in common taken out again.

    Args:
        tried: plans of a set, with as many starts each, two at least.
        random: draws.
    """
    starts = np.log([plan.starts_s for plan in tried])
    own = max(len(tried), 2) / (max(len(tried), 2) - 1)
    spread = float(np.sqrt(own * starts.var(axis=1, ddof=1).mean()))
    drawn = random.normal(0.0, spread, (DRAWS, *starts.shape))
    judgements = [
        judged(
            [
                replace(plan, starts_s=tuple((plan.predicted_s * np.exp(off)).tolist()))
                for plan, off in zip(tried, by, strict=True)
            ]
        )
        for by in drawn - drawn.mean(axis=1, keepdims=True)
    ]
    return float(np.mean([hit for hit, _, _ in judgements])), float(np.mean([regret for _, _, regret in judgements]))


def tried_before(file: Path, seed: int, cluster: str) -> dict[int, list[Tried]]:
    """Plans of sets that a file has rows of, by number of the set.

    Args:
        file: of rows; there need not be one.
        seed: of the sets.
        cluster: name of the machine.
    """
    found: dict[int, list[Tried]] = {}
    for row in read(file)[1] if file.is_file() else ():
        if (row["seed"], row["cluster"]) == (str(seed), cluster):
            found.setdefault(int(row["set"]), []).append(_tried_of(row))
    return found


def _tried_of(row: Mapping[str, str]) -> Tried:
    starts = tuple(float(seconds) for seconds in row["starts_s"].split())
    return Tried(row["plan"], float(row["predicted_s"]), starts)


def _tried(asked: Choices, number: int, root: Path) -> list[Tried]:
    random = np.random.default_rng([asked.seed, number])
    ranks = max(2, len(usable_cores()))
    plans = _plans(asked, random, ranks, root)
    predicted = {plan: predict(job) for plan, job in plans.items()}
    run, rounds = schedule([times.iteration_s for times in predicted.values()])
    measured = []
    for _ in range(asked.starts):
        wait_for_calm(usable_cores(), PATIENCE_S)
        order = [random.permutation(len(plans)).tolist() for _ in range(rounds)]
        train_in_rounds(run, ranks, [root / plan for plan in plans], order, root)
        measured.append([turns_s(root / plan, ranks, run, predicted[plan]) for plan in plans])
    (root / TURNS).write_text(json.dumps(dict(zip(plans, np.stack(measured, axis=1).tolist(), strict=True))))
    even = evened(np.concatenate(measured, axis=1)).reshape(len(plans), asked.starts, rounds)
    return [
        Tried(plan, predicted[plan].iteration_s, tuple(of_starts))
        for plan, of_starts in zip(plans, np.exp(trim_mean(np.log(even), TRIMMED, axis=2)).tolist(), strict=True)
    ]


def evened(seconds: FloatArray) -> FloatArray:
    """Times ``[plans, rounds]`` without what all plans of a round have in common, which says nothing of any."""
    of_round = np.exp(np.mean(np.log(seconds), axis=0))
    return np.asarray(seconds / of_round * np.median(of_round))


def schedule(expected_s: Sequence[float]) -> tuple[Run, int]:
    """How a plan is trained in each turn, and in how many rounds.

    Args:
        expected_s: of an iteration with each plan.
    """
    iterations = int(np.clip(TURN_S / min(expected_s), LEAST_ITERATIONS, MOST_ITERATIONS))
    run = replace(SCHEDULE, warm_up=1, iterations=iterations, timed=0, yardstick_every=0)
    return run, int(np.clip(START_S / (run.total * sum(expected_s)), LEAST_ROUNDS, MOST_ROUNDS))


def turns_s(folder: Path, ranks: int, run: Run, predicted: Times) -> FloatArray:
    """Mean time of an iteration in each turn that a folder's records tell of, to the last rank's end, without drift.

    Args:
        folder: of the records.
        ranks: how many there are.
        run: how they trained in each turn.
        predicted: with what the yardstick's pieces took when the machine was calibrated.
    """
    found = read_measurement(folder, ranks, None)
    slower = [slowness(usual_s(pieces), predicted.yardstick_s, predicted.followed) for pieces in found.yardstick_s]
    return np.asarray(found.times_s.reshape(-1, run.total)[:, run.warm_up :].mean(axis=1) / np.mean(slower))


def _plans(asked: Choices, random: np.random.Generator, ranks: int, root: Path) -> dict[str, ResolvedScenario]:
    """The seven plans of a set, each in a folder of its name."""
    given, fewest = random_job(random, "set", anywhere(asked.cluster), ranks), min(2 * ranks, MOST_TABLES // 2)
    while not LIMITS.allow(given) or len(given["workload"]["model"]["tables"]["value"]) < fewest:
        given = random_job(random, "set", anywhere(asked.cluster), ranks)
    planned = {planner: _resolved(given, {"planner": planner}, root) for planner in PLANNERS}
    tables = given["workload"]["model"]["tables"]["value"]
    names = [f"table_{table}" for table in range(len(tables))]
    largest = names[int(np.argmax([table["rows"] for table in tables]))]
    by_cost: dict[str, Any] = json.loads(json.dumps(planned["greedy"].scenario.workload.sharding.plan))["plan"][MODULE]
    drawn = random.integers(ranks, size=len(names))
    written = {
        "random": {name: _whole(int(rank)) for name, rank in zip(names, drawn, strict=True)},
        "contiguous": {name: _whole(place * ranks // len(names)) for place, name in enumerate(names)},
        "largest_row_wise": {**by_cost, largest: {"sharding_type": "row_wise"}},
    }
    for plan, content in written.items():
        file = {"world_size": ranks, "local_world_size": ranks, "plan": {MODULE: content}}
        planned[plan] = _resolved(given, {"plan": file}, root)
    planned = _distinct(planned)
    for plan, job in planned.items():
        (root / plan).mkdir(exist_ok=True)
        (root / plan / SCENARIO).write_text(job.to_yaml(), encoding="utf-8")
    return planned


def _distinct(planned: Mapping[str, ResolvedScenario]) -> dict[str, ResolvedScenario]:
    """Plans that differ, each by the names of all who made it."""
    makers: dict[str, list[str]] = {}
    for maker, job in planned.items():
        content = dict(json.loads(json.dumps(job.scenario.workload.sharding.plan)))
        content.pop("planner", None)
        makers.setdefault(json.dumps(content, sort_keys=True), []).append(maker)
    return {"+".join(names): planned[names[0]] for names in makers.values()}


def _resolved(given: Mapping[str, Any], sharding: Mapping[str, Any], root: Path) -> ResolvedScenario:
    file = root / "scenario.json"
    content = {**given, "workload": {**given["workload"], "sharding": sharding}}
    file.write_text(json.dumps(content), encoding="utf-8")
    return with_plan(load_scenario(file), Silent())


def _whole(rank: int) -> dict[str, Any]:
    return {"sharding_type": "table_wise", "ranks": [rank]}


def _rows(seed: int | str, cluster: str, number: int, tried: Sequence[Tried]) -> Iterator[dict[str, str]]:
    """What is kept of a set."""
    for plan in tried:
        yield {
            "seed": str(seed),
            "cluster": Path(cluster).stem,
            "set": str(number),
            "plan": plan.plan,
            "predicted_s": repr(float(plan.predicted_s)),  # plans may differ by a picosecond
            "measured_s": f"{plan.measured_s:.5g}",
            "starts_s": " ".join(f"{seconds:.5g}" for seconds in plan.starts_s),
        }
