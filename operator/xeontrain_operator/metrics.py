"""What Prometheus learns of the operator. One registry, made once; every name begins with `xeontrain_`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from wsgiref.simple_server import WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

# A series of its own for the moment at which each counter was made is of no use to anyone here.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it unannotated

PHASES = ("Pending", "Starting", "Running", "Restarting", "Suspended", "Succeeded", "Failed")


class _Jobs(Collector):
    """Jobs by phase, counted when asked for, in the thread of whoever asks."""

    def __init__(self, phases: Callable[[], Mapping[str, int]]) -> None:
        self._phases = phases

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("xeontrain_jobs", "Jobs by phase.", labels=["phase"])
        phases = self._phases()
        for phase in PHASES:
            family.add_metric([phase], phases.get(phase, 0))
        yield family


class Metrics:
    """The operator's figures. Methods are cheap and never raise."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._queue_depth = self._gauge("xeontrain_queue_depth", "Keys due and waiting.", "queue")
        self._queue_age = self._gauge(
            "xeontrain_queue_oldest_seconds", "Longest that a key has waited or been in work.", "queue"
        )
        self._reconcile = Histogram(
            "xeontrain_reconcile_seconds",
            "Duration of a reconcile by result.",
            ["result"],
            registry=self.registry,
            buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self._calls = self._counter(
            "xeontrain_api_requests", "Calls to the Kubernetes API besides watches.", "verb", "kind", "code"
        )
        self._polls = self._counter("xeontrain_launcher_polls", "Questions to launchers by result.", "result")
        self._events = self._counter("xeontrain_watch_events", "Events that watches brought.", "kind")
        self._missed = self._counter(
            "xeontrain_resync_corrections", "Objects that a resync found different from the cache.", "kind"
        )
        self._resync = Gauge(
            "xeontrain_resync_timestamp_seconds", "When the last full resync ended.", registry=self.registry
        )

    def watch_jobs(self, phases: Callable[[], Mapping[str, int]]) -> None:
        """Read how many jobs are in which phase whenever the figures are asked for."""
        self.registry.register(_Jobs(phases))

    def watch_queue(self, name: str, *, depth: Callable[[], float], oldest: Callable[[], float]) -> None:
        """Read a queue's depth and age whenever the figures are asked for."""
        self._queue_depth.labels(name).set_function(depth)
        self._queue_age.labels(name).set_function(oldest)

    @contextmanager
    def reconcile(self) -> Iterator[None]:
        """Time a reconcile, and whether it raised."""
        start, result = time.perf_counter(), "error"
        try:
            yield
            result = "success"
        finally:
            self._reconcile.labels(result).observe(time.perf_counter() - start)

    def count_call(self, verb: str, kind: str, status: int) -> None:
        """A call to the API server; status 0: no answer."""
        self._calls.labels(verb, kind, str(status) if status else "none").inc()

    def count_poll(self, result: str) -> None:
        """A question to a launcher: `answered` or why not, in one word."""
        self._polls.labels(result).inc()

    def count_event(self, kind: str) -> None:
        """An event that a watch brought."""
        self._events.labels(kind).inc()

    def count_corrections(self, kind: str, number: int) -> None:
        """Objects that a resync found different from the cache."""
        self._missed.labels(kind).inc(number)

    def resynced(self, at: float) -> None:
        """The end of a full resync, in Unix seconds."""
        self._resync.set(at)

    def serve(self, port: int) -> WSGIServer:
        """Serve `/metrics` from a thread of its own until the returned server is shut down."""
        server, _thread = start_http_server(port, registry=self.registry)
        return server

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)
