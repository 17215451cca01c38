"""The operator's figures."""

from __future__ import annotations

import urllib.request

import pytest
from xeontrain_operator.metrics import PHASES, Metrics


def _sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_jobs_are_counted_when_asked_for() -> None:
    """Every phase has a series, also with no job in it."""
    metrics, phases = Metrics(), {"Running": 2}
    metrics.watch_jobs(lambda: phases)
    phases["Failed"] = 1
    found = {phase: _sample(metrics, "xeontrain_jobs", phase=phase) for phase in PHASES}
    assert found == {**dict.fromkeys(PHASES, 0.0), "Running": 2.0, "Failed": 1.0}


@pytest.mark.parametrize(("status", "code"), [(200, "200"), (409, "409"), (0, "none")])
def test_calls_are_counted_by_answer(status: int, code: str) -> None:
    """A call without an answer has a code of its own."""
    metrics = Metrics()
    metrics.count_call("get", "Pod", status)
    assert _sample(metrics, "xeontrain_api_requests_total", verb="get", kind="Pod", code=code) == 1.0


def test_reconciles_are_timed_whether_they_raise_or_not() -> None:
    """A failing reconcile is counted under its own result, and its exception goes on."""
    metrics = Metrics()
    with metrics.reconcile():
        pass
    with pytest.raises(ValueError), metrics.reconcile():
        raise ValueError
    for result in ("success", "error"):
        assert _sample(metrics, "xeontrain_reconcile_seconds_count", result=result) == 1.0


def test_served_over_http() -> None:
    """Prometheus' text format, with the process's own figures."""
    metrics = Metrics()
    server = metrics.serve(0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
    assert "process_resident_memory_bytes" in text
    assert "_created" not in text
