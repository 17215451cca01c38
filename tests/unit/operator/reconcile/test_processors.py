"""What the status says of the workers' processors, of the precision and of the other choices of the ranks."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.reconcile.decide import decide
from xeontrain_operator.reconcile.decision import Decision
from xeontrain_operator.reconcile.observed import Observed

from tests.unit.operator.sample import SETTINGS, at, children, cpu, job_document, pod, report

Document = dict[str, Any]
ICE_LAKE = {"model": "Xeon 8370C", "instructionSet": "AVX512_VNNI"}
SAPPHIRE = {"model": "Xeon 8473C", "instructionSet": "AMX"}
STEP = {"step": 1, "totalSteps": 10, "precision": "BF16", "backend": "Gloo"}


def look(*cpus: Document | None, progress: Document | None = None, old: Document | None = None) -> Decision:
    """A look at a running job whose workers have these CPUs; None: the worker has not reported."""
    members = [
        {
            "worker": worker,
            "podUid": f"pod-{worker}",
            "state": "Running",
            "round": 1,
            "cpu": one and cpu(**one),
        }
        for worker, one in enumerate(cpus)
    ]
    document = job_document(spec={"workers": len(cpus)})
    if old is not None:
        document["status"] = old
    given = {
        "pods": tuple(pod(worker) for worker in range(len(cpus))),
        "launcher": report(members=members, progress=progress),
        **children(document, replicas=len(cpus)),
    }
    return decide(Observed(job=document, **given), settings=SETTINGS, now=at(10))


def condition(decision: Decision, type_: str) -> tuple[str, str, str] | None:
    """Status, reason and message of a condition; None where it is not there."""
    found = (one for one in decision.status["conditions"] if one["type"] == type_)
    return next(((one["status"], one["reason"], one["message"]) for one in found), None)


@pytest.mark.parametrize(
    ("cpus", "progress", "expected"),
    [
        pytest.param((SAPPHIRE,), STEP, None, id="one-worker"),
        pytest.param((SAPPHIRE, None), STEP, None, id="not-all-reported"),
        pytest.param(
            (SAPPHIRE, SAPPHIRE),
            STEP,
            ("True", "SameCPU", "All 2 workers have Xeon 8473C (AMX)."),
            id="alike",
        ),
        pytest.param(
            (ICE_LAKE, SAPPHIRE, ICE_LAKE),
            {**STEP, "workerSamplesPerSecond": [20.04, 61.2, 19.8]},
            (
                "False",
                "MixedCPUs",
                "The workers' processors differ, and all wait for the slowest: "
                "Xeon 8370C (AVX512_VNNI): worker 0 (20 samples/s), worker 2 (20 samples/s); "
                "Xeon 8473C (AMX): worker 1 (61 samples/s).",
            ),
            id="mixed-with-speeds",
        ),
        pytest.param(
            (SAPPHIRE, {**SAPPHIRE, "instructionSet": "AVX512_BF16"}),
            None,
            (
                "False",
                "MixedCPUs",
                "The workers' processors differ, and all wait for the slowest: "
                "Xeon 8473C (AMX): worker 0; Xeon 8473C (AVX512_BF16): worker 1.",
            ),
            id="same-model-other-flags",
        ),
    ],
)
def test_mixed_processors(
    cpus: tuple[Document | None, ...], progress: Document | None, expected: tuple[str, str, str] | None
) -> None:
    """A job whose workers differ says which have what and how fast each is, once all have reported."""
    assert condition(look(*cpus, progress=progress), "CPUUniform") == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param({}, None, id="nothing-said"),
        pytest.param(
            {"precision": "BF16", "precisionReason": "1.5 x as fast"},
            ("True", "NativeBF16", "1.5 x as fast."),
            id="native",
        ),
        pytest.param(
            {"precision": "FP32", "precisionReason": "the cores lack it"},
            ("True", "FullPrecision", "the cores lack it."),
            id="fp32",
        ),
        pytest.param(
            {"precision": "BF16", "precisionReason": "the job asks", "precisionEmulated": True},
            (
                "False",
                "EmulatedBF16",
                "the job asks. Write precision: Auto or FP32, or choose nodes with AVX512BF16 or AMXBF16 in "
                "placement.cpuFeatures.",
            ),
            id="emulated",
        ),
    ],
)
def test_precision_and_hardware(said: Document, expected: tuple[str, str, str] | None) -> None:
    """BF16 that the cores only emulate is a condition that is False, with the remedy."""
    progress = {"step": 1, **said}
    assert condition(look(SAPPHIRE, progress=progress), "PrecisionNative") == expected


def test_only_what_slows_down_is_an_event() -> None:
    """Mixed processors and emulated BF16 are told once each; that all is well is no news."""
    emulated = {**STEP, "precisionReason": "the job asks", "precisionEmulated": True}
    first = look(ICE_LAKE, SAPPHIRE, progress=emulated)
    slow = {"MixedCPUs", "EmulatedBF16"}
    assert slow <= {event.reason for event in first.events if event.type == "Warning"}
    again = look(ICE_LAKE, SAPPHIRE, progress=emulated, old=first.status)
    assert not slow & {event.reason for event in again.events}
    well = look(SAPPHIRE, SAPPHIRE, progress={**STEP, "precisionReason": "1.5 x as fast"})
    assert not {"SameCPU", "NativeBF16"} & {event.reason for event in well.events}


def test_choices_stand_until_others_are_reported() -> None:
    """Reasons and rates come into the status, rounded, and stay where a later report lacks them."""
    choices = {
        "precisionReason": "a probe",
        "fp32SamplesPerSecond": 31.24,
        "bf16SamplesPerSecond": 47.38,
        "backendReason": "oneCCL is not installed",
        "ipexUsed": False,
        "ipexReason": "slower",
    }
    first = look(SAPPHIRE, SAPPHIRE, progress={**STEP, **choices, "workerSamplesPerSecond": [30.6, 31.4]})
    rounded = {"fp32SamplesPerSecond": 31.2, "bf16SamplesPerSecond": 47.4}
    assert {name: first.status["cpu"][name] for name in choices} == {**choices, **rounded}
    assert [one["samplesPerSecond"] for one in first.status["workerStatuses"]] == [31.0, 31.0]
    silent = look(SAPPHIRE, SAPPHIRE, progress={"step": 2}, old=first.status)
    assert silent.status["cpu"] == first.status["cpu"]
    changed = look(SAPPHIRE, SAPPHIRE, progress={"step": 2, "ipexReason": "other"}, old=first.status)
    assert changed.status["cpu"] == {**first.status["cpu"], "ipexReason": "other"}


@pytest.mark.parametrize(
    ("resume", "expected", "event"),
    [
        pytest.param(None, None, None, id="from-the-beginning"),
        pytest.param(
            {"step": 40, "exact": True, "reason": ""},
            (
                "False",
                "SameLayout",
                "The run goes on from the checkpoint of step 40 as if it had never stopped.",
            ),
            ("Normal", "Resumed"),
            id="exactly",
        ),
        pytest.param(
            {"step": 40, "exact": False, "reason": "ranks (1 there, 2 here)"},
            (
                "True",
                "OtherLayout",
                "The run goes on from the checkpoint of step 40, but not exactly: ranks (1 there, 2 here).",
            ),
            ("Warning", "ResumeInexact"),
            id="otherwise",
        ),
    ],
)
def test_from_where_a_run_goes_on(
    resume: Document | None, expected: tuple[str, str, str] | None, event: tuple[str, str] | None
) -> None:
    """What a checkpoint cannot give back is a condition and a warning; an exact resume is told as news."""
    decision = look(SAPPHIRE, progress={"step": 40, **({"resume": resume} if resume else {})})
    assert condition(decision, "ResumeInexact") == expected
    told = [(one.type, one.reason) for one in decision.events if one.reason in ("Resumed", "ResumeInexact")]
    assert told == ([event] if event else [])
