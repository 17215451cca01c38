"""What a worker's machine gives, read anew for each round."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from xeontrain_trainer.launcher import layout
from xeontrain_trainer.launcher.layout import Layout
from xeontrain_trainer.launcher.settings import Settings
from xeontrain_trainer.machine import INTEL_OPENMP_NAMES, TCMALLOC_NAMES, Machine, MachineError
from xeontrain_trainer.plan import PlanError, surroundings

from tests.unit.trainer.launcher.loopback import Gang
from tests.unit.trainer.machines import build

GRANTED = build(cores=8, granted=range(4))
OPENMP, TCMALLOC = "/opt/libiomp5.so", "/opt/libtcmalloc.so.4"
LIBRARIES = {INTEL_OPENMP_NAMES: OPENMP, TCMALLOC_NAMES: TCMALLOC}


def _settings(folder: Path, **settings: object) -> Settings:
    gang = Gang(folder, workers=1, command=["true"], CPU_LIMIT_MILLIS=4000, **settings)
    return Settings.from_environ(gang.environ(gang.make_pod(0)))


def _machine(monkeypatch: pytest.MonkeyPatch, read: Callable[[], Machine]) -> None:
    monkeypatch.setattr(layout, "read_machine", read)
    monkeypatch.setattr(surroundings, "find_library", lambda names, environ: LIBRARIES[names])


def test_a_round_is_planned_on_the_cpus_of_its_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet may give a running container other CPUs: plan and report follow."""
    machines = iter([GRANTED, build(cores=8, granted=range(4, 8))])
    _machine(monkeypatch, lambda: next(machines))
    found = Layout(_settings(tmp_path), environ={})
    assert found.plan is not None
    assert (found.plan.cpus, found.cpu()["cpus"]) == ((0, 1, 2, 3), "0-3")
    assert found.plan_for(2).cpus == (4, 5, 6, 7)
    assert found.cpu()["cpus"] == "4-7"


def test_a_machine_that_cannot_be_read_for_a_moment_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read at the start stands."""
    machines = [GRANTED]

    def read() -> Machine:
        if not machines:
            raise MachineError("not now")
        return machines.pop()

    _machine(monkeypatch, read)
    found = Layout(_settings(tmp_path), environ={})
    found.look_again()
    assert found.plan_for(1).cpus == (0, 1, 2, 3)
    assert found.cpu()["exclusive"] == "True"


def test_a_pool_that_shrinks_ends_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many ranks as have run before run again; more than there ever was room for are refused."""
    machines = iter([GRANTED, *[build(cores=8, granted=[7])] * 2])
    _machine(monkeypatch, lambda: next(machines))
    found = Layout(_settings(tmp_path, RANKS_PER_WORKER=2), environ={})
    assert found.plan_for(2) == found.plan
    with pytest.raises(PlanError, match=r"spec\.ranksPerWorker"):
        found.plan_for(3)


def test_an_interface_that_is_not_there_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rank is left to wait on it."""
    _machine(monkeypatch, lambda: GRANTED)
    settings = _settings(tmp_path, INTERFACE="eth77")
    found = Layout(settings, environ={})
    assert found.refusal is not None
    assert found.refusal.reason == "PlanImpossible"
    assert found.refusal.message.startswith("spec.distributed.interface is eth77, but the pod has ")
    assert Layout(dataclasses.replace(settings, interface="lo"), environ={}).refusal is None


def test_a_preload_that_is_not_there_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine(monkeypatch, lambda: GRANTED)
    found = Layout(_settings(tmp_path), environ={"LD_PRELOAD": "/opt/none.so"})
    assert any("/opt/none.so, which is not there" in line for line in found.describe())


@pytest.mark.parametrize(
    ("now", "cpus", "words"),
    [
        pytest.param(range(4), None, "", id="unchanged"),
        pytest.param(range(4, 8), (4, 5, 6, 7), "was 0-3 when its ranks started and is 4-7 now", id="moved"),
        pytest.param(range(2), None, "is 0-1 now; they run where the kernel puts them", id="smaller"),
    ],
)
def test_ranks_follow_a_set_that_changes_under_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    now: range,
    cpus: tuple[int, ...] | None,
    words: str,
) -> None:
    """Where the new set holds as many ranks of as many threads there is a plan for it; the status tells the
    change until the next round."""
    current = [GRANTED]
    _machine(monkeypatch, lambda: current[0])
    found = Layout(_settings(tmp_path, RANKS_PER_WORKER=2), environ={})
    found.plan = found.plan_for(2)
    current[0] = build(cores=8, granted=now)
    found.look_again()
    followed = found.follow()
    assert (followed and followed.cpus) == cpus
    assert words in found.cpu()["changed"]
    assert bool(words) == bool(found.cpu()["changed"])
    found.follow()
    assert words in found.cpu()["changed"]
    current[0] = GRANTED
    found.plan_for(2)
    assert found.cpu()["changed"] == ""


def test_required_pinning_refuses_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word of `CPUPinned` and its sentence, so that the operator can tell both."""
    _machine(monkeypatch, lambda: build(cores=4, granted=range(4)))
    refusal = Layout(_settings(tmp_path, PINNING="Required"), environ={}).refusal
    assert refusal is not None
    assert (refusal.reason, refusal.detail) == ("NotPinned", "SharedPool")
    assert refusal.message.startswith("spec.pinning is Required, but SharedPool: the container may run on 4")


@pytest.mark.parametrize(
    ("ipex", "preload"),
    [
        pytest.param("Enabled", f"{OPENMP}:{TCMALLOC}", id="enabled"),
        pytest.param("Auto", TCMALLOC, id="auto"),
        pytest.param("Disabled", TCMALLOC, id="disabled"),
        pytest.param(None, TCMALLOC, id="a-command"),
    ],
)
def test_intels_openmp_comes_with_intels_extension_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ipex: str | None, preload: str
) -> None:
    """Stock PyTorch was measured slower under it."""
    settings: dict[str, object] = {}
    if ipex is not None:
        file = tmp_path / "training.json"
        file.write_text(json.dumps({"contract": 1, "training": {"ipex": ipex}}))
        settings["TRAINING_FILE"] = file
    _machine(monkeypatch, lambda: GRANTED)
    found = Layout(_settings(tmp_path, **settings), environ={})
    environment = found.plan_for(1).ranks[0].environment
    assert environment["LD_PRELOAD"] == preload
    assert ("KMP_AFFINITY" in environment) == (ipex == "Enabled")
