"""Measures jobs on the test cluster: `make bench-e2e`. A table with targets; exit 1 where one is missed.

Clocks: cluster and bench run on one machine, so that a time printed in a pod compares with one taken here.
"""

from __future__ import annotations

import argparse
import re
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.cluster.cluster import ALIASES, OPERATOR_NAMESPACE, Cluster
from tests.cluster.settings import REPOSITORY
from tests.e2e.conftest import CHART, wait_for_operator
from tests.e2e.jobs import Namespace, command_job

EXAMPLE = str(REPOSITORY / "examples" / "mail-filter.yaml")
# Rank 1 ends a little later than rank 0, so that "the last rank's end" is one moment.
TIMED_END = (
    "import os, time\ntime.sleep(3 + int(os.environ['RANK']))\nprint('ended', time.time(), flush=True)\n"
)
# Rank 1 dies in round 1; the ranks of round 2 say when they have begun.
TIMED_DEATH = (
    "import os, time\n"
    "again = os.environ['XEONTRAIN_ROUND'] != '1'\n"
    "if again: print('began', time.time(), flush=True)\n"
    "elif os.environ['RANK'] == '1':\n"
    "    time.sleep(2)\n"
    "    print('died', time.time(), flush=True)\n"
    "    os.kill(os.getpid(), 9)\n"
    "time.sleep(5 if again else 600)\n"
)
LOOK_SECONDS = 0.1
OBSERVED_SECONDS = 60.0
MIB = 1 << 20


@dataclass(frozen=True)
class Figure:
    """One measured quantity; `target` is the largest value that is good, None where there is no target."""

    name: str
    unit: str
    values: tuple[float, ...]
    target: float | None = None

    @property
    def good(self) -> bool:
        """Whether the median meets the target."""
        return self.target is None or median(self.values) <= self.target


def main() -> int:
    """Runs the benchmark and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="short jobs to measure (default 3)")
    runs = parser.parse_args().runs
    with Cluster.running(images=("thin", "operator", "trainer")) as cluster:
        cluster.helm("install", "xeontrain", CHART, "-n", OPERATOR_NAMESPACE)
        wait_for_operator(cluster)
        figures = [*short_jobs(cluster, runs=runs), restarts(cluster, runs=runs), *training(cluster)]
    print_table(figures)
    return 0 if all(figure.good for figure in figures) else 1


def short_jobs(cluster: Cluster, *, runs: int) -> list[Figure]:
    """Jobs of two workers that do no training: what Kubernetes, launcher and operator take by themselves."""
    to_running, to_succeeded = [], []
    for number in range(runs):
        ns = _new_namespace(cluster)
        name = f"bench-{number}"
        started = time.time()
        ns.apply(command_job(name, image=ALIASES["thin"], script=TIMED_END))
        to_running.append(_both_running(ns) - started)
        last_end = _last_end(ns, name)
        ended = _until(lambda ns=ns, name=name: _phase(ns, name) == "Succeeded")
        to_succeeded.append(ended - last_end)
        _until(lambda ns=ns: not ns.list("pods"))
    return [
        Figure("apply to both pods Running", "s", tuple(to_running), target=5),
        Figure("last rank's end to Succeeded", "s", tuple(to_succeeded), target=3),
    ]


def restarts(cluster: Cluster, *, runs: int) -> Figure:
    """Jobs of two workers of which a rank dies: until the ranks of both run again, in the same pods."""
    found = []
    for number in range(runs):
        ns, name = _new_namespace(cluster), f"again-{number}"
        ns.apply(command_job(name, image=ALIASES["thin"], script=TIMED_DEATH))
        began = [_said(ns, f"{name}-{worker}", "began") for worker in range(2)]
        found.append(max(began) - _said(ns, f"{name}-1", "died"))
        ns.kubectl("delete", "xeontrainjob", name, "--wait=false")
        _until(lambda ns=ns: not ns.list("pods"))
    return Figure("a rank's death to all ranks again", "s", tuple(found), target=5)


def training(cluster: Cluster) -> list[Figure]:
    """The example: time to its first step, and what the operator costs while it runs."""
    ns = _new_namespace(cluster)
    started = time.time()
    ns.kubectl("apply", "-f", EXAMPLE)
    first_step = _until(lambda: "step 1/" in _log(ns, "mail-filter-0"), timeout_seconds=300) - started
    _until(lambda: _phase(ns, "mail-filter") == "Running")
    before, rss_before = _operator_figures(cluster)
    observed_from = time.time()
    time.sleep(OBSERVED_SECONDS)
    after, rss_after = _operator_figures(cluster)
    per_minute = (after - before) * 60 / (time.time() - observed_from)
    _until(lambda: _phase(ns, "mail-filter") == "Succeeded", timeout_seconds=1200)
    whole = time.time() - started
    return [
        Figure("apply to first optimizer step", "s", (first_step,)),
        Figure("apply to Succeeded, the example", "s", (whole,)),
        Figure("operator RSS, one job running", "MiB", (max(rss_before, rss_after) / MIB,), target=150),
        Figure("API calls a minute besides watches", "1/min", (per_minute,), target=20),
    ]


def _new_namespace(cluster: Cluster) -> Namespace:
    name = f"bench-{secrets.token_hex(3)}"
    cluster.kubectl("create", "namespace", name)
    return Namespace(cluster, name)


def _until(check: Callable[[], bool], *, timeout_seconds: float = 180) -> float:
    """Looks until it is so and returns the time of that."""
    deadline = time.time() + timeout_seconds
    while not check():
        if time.time() > deadline:
            raise TimeoutError(f"not within {timeout_seconds:.0f} s")
        time.sleep(LOOK_SECONDS)
    return time.time()


def _phase(ns: Namespace, name: str) -> str:
    return ns.kubectl("get", "xeontrainjob", name, "-o", "jsonpath={.status.phase}")


def _both_running(ns: Namespace) -> float:
    query = "jsonpath={.items[*].status.phase}"
    return _until(lambda: ns.kubectl("get", "pods", "-o", query).split() == ["Running"] * 2)


def _log(ns: Namespace, pod: str) -> str:
    return str(ns.cluster.kubectl("-n", ns.name, "logs", pod, check=False).stdout)


def _last_end(ns: Namespace, name: str) -> float:
    """The moment that rank 1 printed at its end. Its launcher parks in place, so its log stays readable."""
    return _said(ns, f"{name}-1", "ended")


def _said(ns: Namespace, pod: str, word: str) -> float:
    """The latest moment that a rank has printed after this word, once there is one."""
    found: list[float] = []

    def look() -> bool:
        found[:] = [float(text) for text in re.findall(rf"{word} ([\d.]+)", _log(ns, pod))]
        return bool(found)

    _until(look)
    return max(found)


def _operator_figures(cluster: Cluster) -> tuple[float, float]:
    """API calls so far and resident bytes, from the operator's own metrics."""
    pods = cluster.kubectl(
        "-n", OPERATOR_NAMESPACE, "get", "pods", "-o", "jsonpath={.items[0].metadata.name}"
    )
    path = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{pods.stdout.strip()}:8081/proxy/metrics"
    text = cluster.kubectl("get", "--raw", path).stdout
    calls = sum(
        float(line.split()[-1]) for line in text.splitlines() if line.startswith("xeontrain_api_requests")
    )
    resident = next(
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("process_resident_memory_bytes ")
    )
    return calls, resident


def print_table(figures: list[Figure]) -> None:
    """Shows each figure with its spread and target."""
    table = Table(title="Jobs on the test cluster")
    for column in ("figure", "median", "least", "most", "target", ""):
        table.add_column(column)
    for figure in figures:
        table.add_row(
            f"{figure.name} ({figure.unit})",
            *(f"{value:.1f}" for value in (median(figure.values), min(figure.values), max(figure.values))),
            "" if figure.target is None else f"<= {figure.target:g}",
            "" if figure.target is None else "met" if figure.good else "MISSED",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(main())
