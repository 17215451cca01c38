"""Puts together what takes part in the gang: coordinator, member, ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..gang.coordinator import Coordinator
from ..gang.identity import Identity
from ..gang.member import Member
from ..gang.timing import Timing, save_seconds
from ..plan import agree_ranks
from .client import HttpTransport, LocalTransport, Transport
from .coordinator_loop import CoordinatorLoop
from .layout import Layout
from .logs import RoundLogs
from .member_loop import MemberLoop
from .placement import Placement
from .progress import ProgressTail
from .rankenv import RankFiles
from .results import JobDir, StateDir
from .settings import Settings
from .start import Found
from .supervisor import Supervisor
from .tasks import Tasks


@dataclass(frozen=True)
class Basis:
    """What a launcher has before it knows its identity. `marker`: the verdict that an earlier start kept."""

    settings: Settings
    command: Sequence[str]
    environ: Mapping[str, str]
    state: StateDir
    job_dir: JobDir
    logs: RoundLogs
    layout: Layout
    marker: Optional[Mapping[str, Any]]
    tasks: Tasks
    say: Callable[[str], None]


@dataclass(frozen=True)
class Parts:
    """One launcher's part in the gang. `coordinating`: worker 0 only."""

    member_loop: MemberLoop
    supervisor: Supervisor
    placement: Placement
    progress: ProgressTail
    coordinating: Optional[CoordinatorLoop]

    @property
    def member(self) -> Member:
        """The member's state."""
        return self.member_loop.member

    @property
    def coordinator(self) -> Optional[Coordinator]:
        """The coordinator's state, on worker 0."""
        return self.coordinating.coordinator if self.coordinating else None


def assemble(basis: Basis, found: Found) -> Parts:
    """The parts, none of them at work yet."""
    settings, timing = basis.settings, Timing.for_workers(basis.settings.workers)
    identity = Identity(pod_uid=settings.pod_uid, start=found.start, started_at=time.time())
    coordinating = _coordinating(basis, found, identity, timing) if settings.worker == 0 else None
    member_loop = MemberLoop(
        _member(basis, found, identity, timing),
        settings=settings,
        layout=basis.layout,
        state=basis.state,
        transport=_transport(settings, coordinating, timing),
        tasks=basis.tasks,
        say=basis.say,
    )
    supervisor = Supervisor(
        basis.command,
        state_dir=settings.state_dir,
        environ=basis.environ,
        logs=basis.logs,
        on_exit=member_loop.rank_ended,
    )
    member_loop.supervisor = supervisor
    return Parts(
        member_loop=member_loop,
        supervisor=supervisor,
        placement=Placement(basis.layout, supervisor=supervisor, say=basis.say),
        progress=ProgressTail(supervisor.files.progress),
        coordinating=coordinating,
    )


def _member(basis: Basis, found: Found, identity: Identity, timing: Timing) -> Member:
    settings, layout = basis.settings, basis.layout
    member = Member(
        job_uid=settings.job_uid,
        worker=settings.worker,
        identity=identity,
        timing=timing,
        ranks=layout.ranks,
        highest=found.round,
        verdict=basis.marker,
        park_only=settings.park_only,
        save_seconds=save_seconds(settings.grace_period_seconds),
    )
    member.cpu = layout.cpu()
    if layout.refusal is not None and not settings.park_only:
        member.refuse(layout.refusal)
    return member


def _coordinating(basis: Basis, found: Found, identity: Identity, timing: Timing) -> CoordinatorLoop:
    settings, files = basis.settings, RankFiles(basis.settings.state_dir)
    coordinator = Coordinator(
        job_uid=settings.job_uid,
        identity=identity,
        workers=settings.workers,
        timing=timing,
        agree_ranks=lambda reported: _agreed(settings, reported),
        master_addr=settings.pod_ip,
        backoff_limit=settings.backoff_limit,
        # A built-in training tells of its first step; until then it loads model and data.
        has_begun=files.has_progress if settings.training_file is not None else lambda: True,
        failures_counted=settings.failures_counted,
        highest=found.highest,
        verdict=basis.marker,
    )
    return CoordinatorLoop(
        coordinator,
        settings=settings,
        timing=timing,
        state=basis.state,
        job_dir=basis.job_dir,
        metrics_file=files.metrics,
        tasks=basis.tasks,
        say=basis.say,
    )


def _agreed(settings: Settings, reported: list[int]) -> int:
    if settings.ranks_per_worker is not None:
        return settings.ranks_per_worker
    return agree_ranks(reported, workers=settings.workers, global_batch_size=settings.global_batch_size)


def _transport(settings: Settings, coordinating: Optional[CoordinatorLoop], timing: Timing) -> Transport:
    if coordinating is not None:
        return LocalTransport(coordinating.exchange)
    return HttpTransport(
        host=settings.coordinator, port=settings.coordinator_port, hold_seconds=timing.period
    )
