"""Ask every worker, score its answers against the truth, judge its samples against its laws."""

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers.results import standard_error
from benchmarks.peers.cases import Case, cases, score, tables, task_of
from benchmarks.peers.catalog import DELTA, EPSILON, METHODS, PEERS, SAMPLERS, Method, Peer, Sampler
from benchmarks.peers.environment import Unavailable
from benchmarks.peers.exchange import Answer, Task, ask
from benchmarks.peers.laws import judge
from benchmarks.peers.report import Checked, Comparison, Measured

_WORKER_LIMIT_S = 1800.0


def compare(
    pythons: Mapping[str, Path | Unavailable],
    folder: Path,
    *,
    quick: bool,
    seed: int,
    say: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Run every peer that has an interpreter, one after the other."""
    made = cases(seed)
    measured: list[Measured] = []
    checked: list[Checked] = []
    versions, skipped = {}, {}
    for peer in PEERS:
        python = pythons[peer.name]
        if isinstance(python, Unavailable):
            skipped[peer.name] = python.reason
            continue
        say(f"asking {peer.name}")
        plan = _plan(peer, made, quick=quick)
        answers = ask(
            python, peer.script, [task for task, *_ in plan], tables(made), folder / peer.name,
            limit_s=_WORKER_LIMIT_S,
        )  # fmt: skip
        versions[peer.name] = answers.version
        if not answers.version:
            skipped[peer.name] = (
                next(iter(answers.answers.values())).refused or "its worker said nothing"
            )
            continue
        for task, asked, case in plan:
            answer = answers.answers[task.key]
            if isinstance(asked, Sampler):
                checked.append(verdict(asked, answer))
            else:
                measured.append(measure(asked, case, answer))
    return Comparison(
        measured=sorted(
            measured, key=lambda row: [method.label for method in METHODS].index(row.method)
        ),
        checked=checked,
        versions=versions,
        skipped=skipped,
        facts=f"epsilon = {EPSILON:g}, delta = {DELTA:g} where one is used · "
        f"{'quick' if quick else 'full'} run · "
        f"Python {platform.python_version()}",
    )


def _plan(
    peer: Peer, made: Sequence[Case], *, quick: bool
) -> list[tuple[Task, Method | Sampler, Case]]:
    repetitions, limit_s = (4, 5.0) if quick else (20, 60.0)
    methods = [
        (task_of(method, case, repetitions=repetitions, limit_s=limit_s), method, case)
        for method in METHODS
        if method.peer == peer.name
        for case in made
    ]
    samplers = [
        (_law_task(sampler, quick=quick), sampler, made[0])
        for sampler in SAMPLERS
        if sampler.peer == peer.name
    ]
    return [*samplers, *methods]


def _law_task(sampler: Sampler, *, quick: bool) -> Task:
    return Task(
        key=f"law {sampler.label}".replace(" ", "-").replace(",", ""),
        method=sampler.call,
        table="",
        arguments={**sampler.arguments, "size": sampler.quick_size if quick else sampler.size},
    )


def measure(method: Method, case: Case, answer: Answer) -> Measured:
    """Score what a method answered."""
    said = {"kind": method.kind, "table": case.name, "method": method.label}
    about = {"peer": method.peer, "promise": method.promise, "note": answer.note}
    if answer.refused:
        return Measured(**said, **about, refused=answer.refused)
    errors = score(method.kind, answer.values, case.target(method.kind))
    return Measured(
        **said,
        **about,
        error=float(errors.mean()),
        standard_error=standard_error(errors),
        seconds=float(np.median(answer.seconds)),
        repetitions=len(errors),
    )


def verdict(sampler: Sampler, answer: Answer) -> Checked:
    """Judge what a sampler answered."""
    law = sampler.law()
    asked = {"sampler": sampler.label, "peer": sampler.peer, "law": law.text}
    if answer.refused:
        return Checked(**asked, verdict=f"not checked: {answer.refused}")
    found = judge(answer.values[0], law, sampler.suspect() if sampler.suspect else None)
    broken = f"BREAKS ITS LAW{f': follows {found.instead}' if found.instead else ''}"
    return Checked(
        **asked,
        statistic=law.mean_of[0],
        claimed=found.claimed,
        measured=found.measured,
        samples=found.size,
        distance=found.distance,
        p_value=found.p_value,
        verdict="follows" if found.follows else broken,
    )
