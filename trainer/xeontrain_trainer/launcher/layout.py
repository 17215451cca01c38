"""What this worker's machine gives: the plan for a number of ranks, the `cpu` object, a reason to refuse."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Optional

from ..gang.messages import Refusal
from ..machine import Machine, MachineError, format_cpus, read_machine
from ..plan import Plan, PlanError, PlanRequest, auto_ranks, look_around, make_plan
from .exclusive import Exclusiveness, judge_exclusive
from .files import read_json
from .settings import Settings

TEXT_LIMIT = 500
MOST_WARNINGS = 16


class Layout:
    """The machine as it is now, and what follows from it. `refusal`: set at the start where no round can ever
    run."""

    def __init__(self, settings: Settings, *, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = dict(environ)
        self._asks_for_ipex = asks_for_ipex(settings.training_file)
        self._machine: Optional[Machine] = None
        self._exclusive: Optional[Exclusiveness] = None
        self._changed = ""
        self.plan: Optional[Plan] = None
        self.refusal: Optional[Refusal] = None
        self._read()

    def _read(self) -> None:
        try:
            machine = read_machine()
            exclusive = self._take(machine)
            self.plan = self._plan(machine, self._settings.ranks_per_worker)
        except (MachineError, PlanError) as error:
            self.refusal = Refusal("PlanImpossible", str(error)[:TEXT_LIMIT])
            return
        if self._settings.pinning == "Required" and exclusive.value != "True":
            text = f"spec.pinning is Required, but {exclusive.reason}: {exclusive.message}"
            self.refusal = Refusal("NotPinned", text[:TEXT_LIMIT], detail=exclusive.reason)

    def _take(self, machine: Machine) -> Exclusiveness:
        settings = self._settings
        exclusive = judge_exclusive(
            machine, cpu_limit_millis=settings.cpu_limit_millis, pinning=settings.pinning
        )
        self._machine, self._exclusive = machine, exclusive
        return exclusive

    def look_again(self) -> None:
        """Reads the CPUs anew and judges whether they are exclusive: the kubelet may change the set of a
        running container."""
        # What cannot be read for a moment is as it was.
        with contextlib.suppress(MachineError):
            self._take(read_machine())

    def follow(self) -> Optional[Plan]:
        """After `look_again`, while ranks run: the plan of as many ranks of as many threads on a CPU set that
        is no longer the plan's; None where it is, or such a plan is not possible. `cpu` tells the change
        until the next round is planned."""
        plan, machine = self.plan, self._machine
        if plan is None or machine is None or not plan.bound or plan.cpus == machine.numbers:
            return None
        new = self._same_shape(plan, machine)
        where = "their threads were moved there" if new else "they run where the kernel puts them"
        self._changed = (
            f"its CPU set was {format_cpus(plan.cpus)} when its ranks started and is "
            f"{format_cpus(machine.numbers)} now; {where}"
        )[:TEXT_LIMIT]
        self.plan = new or self.plan
        return new

    def _same_shape(self, plan: Plan, machine: Machine) -> Optional[Plan]:
        try:
            new = self._plan(machine, len(plan.ranks))
        except PlanError:
            return None
        return new if new.bound and new.cores_per_rank == plan.cores_per_rank else None

    @property
    def ranks(self) -> int:
        """What this worker reports: the ranks that it is asked for, or with Auto the ranks that it wants."""
        settings = self._settings
        if settings.ranks_per_worker is not None:
            return settings.ranks_per_worker
        if self._machine is None:
            return 1
        return auto_ranks(self._machine, cpu_limit_millis=settings.cpu_limit_millis, pinning=settings.pinning)

    def plan_for(self, ranks: Optional[int]) -> Plan:
        """The plan for this many ranks on the CPUs of this moment. Raises PlanError."""
        self.look_again()
        if self._machine is None:
            raise PlanError("this machine's CPUs cannot be read")
        self._changed = ""
        try:
            return self._plan(self._machine, ranks)
        except PlanError:
            if self.plan is None or len(self.plan.ranks) != ranks:
                raise
            # A shared pool shrinks as others get CPUs of their own: slower, but no end of a job that has run.
            return self.plan

    def _plan(self, machine: Machine, ranks: Optional[int]) -> Plan:
        settings = self._settings
        found = look_around(
            self._environ,
            address=settings.pod_ip,
            interface=settings.interface,
            ipex=self._asks_for_ipex,
        )
        return make_plan(
            machine,
            PlanRequest(
                ranks=ranks,
                workers=settings.workers,
                worker=settings.worker,
                ccl_workers_per_rank=settings.ccl_workers_per_rank,
                cpu_limit_millis=settings.cpu_limit_millis,
                pinning=settings.pinning,
                backend=settings.backend,
                environ=self._environ,
                **found,
            ),
        )

    def cpu(self) -> dict[str, Any]:
        """The contract's `cpu` object."""
        machine, plan, exclusive = self._machine, self.plan, self._exclusive
        return {
            "model": machine.model[:TEXT_LIMIT] if machine else "",
            "instructionSet": machine.instruction_set if machine else "baseline",
            "cpus": format_cpus(machine.numbers)[:TEXT_LIMIT] if machine else "",
            "ranks": len(plan.ranks) if plan else 0,
            "coresPerRank": plan.cores_per_rank if plan else 0,
            "commCoresPerRank": plan.comm_cores_per_rank if plan else 0,
            "exclusive": exclusive.value if exclusive else "Unknown",
            "reason": exclusive.reason if exclusive else "NotProven",
            "message": exclusive.message[:TEXT_LIMIT] if exclusive else "the machine could not be read",
            "changed": self._changed,
        }

    @property
    def warnings(self) -> list[str]:
        """The plan's sentences for people, among them the user's own values that win over it."""
        found = self.plan.warnings if self.plan else ()
        return [text[:TEXT_LIMIT] for text in found[:MOST_WARNINGS]]

    def describe(self) -> list[str]:
        """The plan in a line or two, for the log."""
        if self.refusal is not None:
            return [self.refusal.message]
        cpu = self.cpu()
        spare = f" and {cpu['commCoresPerRank']} for communication" if cpu["commCoresPerRank"] else ""
        lines = [
            f"{cpu['model'] or 'unknown CPU'} ({cpu['instructionSet']}), CPUs {cpu['cpus']}: "
            f"{count(cpu['ranks'], 'rank')} of {count(cpu['coresPerRank'], 'core')}{spare}"
        ]
        return lines + self.warnings


def asks_for_ipex(training_file: Optional[str]) -> bool:
    """Whether the job wants Intel's extension, whose OpenMP runtime is preloaded with it. Stock PyTorch was
    measured slower under that runtime than under its own."""
    training = ((read_json(training_file) if training_file else None) or {}).get("training")
    return isinstance(training, dict) and training.get("ipex") == "Enabled"


def count(number: int, noun: str) -> str:
    """`1 rank`, `2 ranks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
