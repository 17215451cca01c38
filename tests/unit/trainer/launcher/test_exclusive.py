"""Exclusive CPUs are claimed only where everything proves them."""

from __future__ import annotations

import pytest
from xeontrain_trainer.launcher.exclusive import judge_exclusive

from tests.unit.trainer.machines import build

FOUR = [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("granted", "quota", "limit_millis", "pinning", "value", "reason"),
    [
        pytest.param(FOUR, None, 4000, "Preferred", "True", "Exclusive", id="exclusive"),
        pytest.param(FOUR, None, 4000, "Required", "True", "Exclusive", id="exclusive-required"),
        pytest.param(FOUR, 4.0, 4000, "Preferred", "Unknown", "NotProven", id="quota-left-in-place"),
        pytest.param(FOUR, 5.0, 4000, "Preferred", "Unknown", "NotProven", id="quota-of-the-pod"),
        pytest.param(FOUR, 2.0, 4000, "Preferred", "False", "QuotaThrottled", id="quota-below-the-limit"),
        pytest.param(range(16), None, 4000, "Preferred", "False", "SharedPool", id="all-cpus"),
        pytest.param(range(2, 16), 4.0, 4000, "Preferred", "False", "SharedPool", id="all-but-reserved"),
        pytest.param(range(16), None, 16000, "Preferred", "False", "SharedPool", id="as-large-as-the-node"),
        pytest.param(FOUR, None, 8000, "Preferred", "False", "SharedPool", id="fewer-than-the-limit"),
        pytest.param(FOUR, None, 3500, "Preferred", "False", "FractionalCPU", id="fraction"),
        pytest.param(FOUR, None, None, "Preferred", "False", "SharedPool", id="no-limit"),
        pytest.param(FOUR, None, 4000, "Disabled", "False", "Disabled", id="disabled"),
    ],
)
def test_judgement(
    granted: list[int], quota: float | None, limit_millis: int | None, pinning: str, value: str, reason: str
) -> None:
    machine = build(cores=16, granted=granted, quota_cpus=quota)
    judged = judge_exclusive(machine, cpu_limit_millis=limit_millis, pinning=pinning)
    assert (judged.value, judged.reason) == (value, reason)
    assert judged.message


def test_a_burstable_pod_on_a_two_cpu_node_is_not_exclusive() -> None:
    """It sees one CPU, the whole shared pool, and has a limit of one: only the quota tells it apart."""
    burstable = build(cores=2, granted=[1], quota_cpus=1.0)
    assert judge_exclusive(burstable, cpu_limit_millis=1000, pinning="Required").value == "Unknown"
    guaranteed = build(cores=2, granted=[1])
    assert judge_exclusive(guaranteed, cpu_limit_millis=1000, pinning="Required").value == "True"
