"""Best times of actions that take turns, so that whatever else the machine does hits all alike."""

import time
from collections.abc import Callable


def interleaved_cpu(*actions: Callable[[], object], rounds: int) -> list[tuple[float, float]]:
    """Best (seconds, CPU seconds of all threads) of each action."""
    best = [(float("inf"), float("inf"))] * len(actions)
    for _ in range(rounds):
        for index, action in enumerate(actions):
            start, cpu = time.perf_counter(), time.process_time()
            action()
            took = time.perf_counter() - start, time.process_time() - cpu
            best[index] = min(best[index][0], took[0]), min(best[index][1], took[1])
    return best


def interleaved(*actions: Callable[[], object], rounds: int = 7) -> list[float]:
    """Best seconds of each action."""
    return [seconds for seconds, _ in interleaved_cpu(*actions, rounds=rounds)]
