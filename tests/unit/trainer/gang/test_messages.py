"""Messages are the same after a trip over the wire, and nothing that anyone sends breaks the reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xeontrain_trainer.gang import messages as m
from xeontrain_trainer.gang.identity import Identity, RoundId, started_later
from xeontrain_trainer.gang.messages import (
    Answer,
    Order,
    RankFailure,
    Refusal,
    Report,
    read_answer,
    read_report,
)
from xeontrain_trainer.gang.wire import MAX_MESSAGE_BYTES, MessageError

ME = Identity("pod-1", 2, 1700000000.5)
COORDINATOR = Identity("pod-0", 1, 1700000000.25)
ROUND = RoundId(4, COORDINATOR)
VERDICT = {
    "contract": 1,
    "jobUid": "job",
    "worker": 0,
    "round": 4,
    "outcome": "Failed",
    "metrics": {},
    "model": None,
    "failures": 1,
    "failure": {
        "worker": 1,
        "rank": None,
        "exitCode": None,
        "signal": None,
        "reason": "NotPinned",
        "message": "größer",
    },
}
FULL_REPORT = Report(
    job_uid="job",
    worker=1,
    identity=ME,
    sequence=9,
    state=m.STOPPING,
    ranks=2,
    highest=4,
    round=ROUND,
    alive=True,
    outcome=m.FAILED,
    failures=(RankFailure(1, 3, None, 9, "ended by SIGKILL", 1700000001.0, True),),
    leaving=True,
    asked=True,
    finished=True,
    refusal=Refusal("NotPinned", "no", "SharedPool"),
    coordinator=COORDINATOR,
    cpu={"model": "Xeon", "ranks": 2, "exclusive": "True"},
    verdict=VERDICT,
    unfinished=(3, 7),
)
BARE_REPORT = Report(job_uid="job", worker=0, identity=ME, sequence=1, state=m.WAITING, ranks=1, highest=0)
ORDER = Order(round=ROUND, ranks_per_worker=2, master_addr="10.0.0.7", master_port=29503)


@pytest.mark.parametrize("report", [FULL_REPORT, BARE_REPORT], ids=["full", "bare"])
def test_a_report_survives_the_wire(report: Report) -> None:
    """Reading undoes writing."""
    assert read_report(report.to_bytes()) == report


@pytest.mark.parametrize(
    "answer",
    [
        Answer(m.WAIT, "job", COORDINATOR, ME, 3, fence=2),
        Answer(m.RUN, "job", COORDINATOR, ME, 3, order=ORDER),
        Answer(m.STOP, "job", COORDINATOR, ME, 3, fence=4, round=ROUND),
        Answer(m.DONE, "job", COORDINATOR, ME, 3, verdict=VERDICT),
        Answer(m.SUPERSEDED, "job", COORDINATOR, ME, 3),
        Answer(m.ELSEWHERE, "job", COORDINATOR, ME, 3),
    ],
    ids=lambda answer: answer.kind,
)
def test_an_answer_survives_the_wire(answer: Answer) -> None:
    """Reading undoes writing."""
    assert read_answer(answer.to_bytes()) == answer


def changed(**fields: Any) -> bytes:
    """The full report with some fields set to something else."""
    return json.dumps({**json.loads(FULL_REPORT.to_bytes()), **fields}).encode()


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"\xff\xfe", "not JSON", id="not-utf-8"),
        pytest.param(b"[]", "expected an object", id="a-list"),
        pytest.param(b"[" * 9000, "not JSON", id="deep"),
        pytest.param(b'{"a":' * 2000 + b"1" + b"}" * 2000, "not JSON|contract", id="deep-objects"),
        pytest.param(b'{"contract": ' + b"9" * 5000 + b"}", "not JSON|contract", id="huge-number"),
        pytest.param(b'{"contract": NaN}', "NaN is not a number", id="nan"),
        pytest.param(b" " * (MAX_MESSAGE_BYTES + 1), "more than", id="too-long"),
        pytest.param(b"{}", "contract", id="nothing"),
        pytest.param(changed(contract=2), "this launcher speaks 1", id="another-contract"),
        pytest.param(changed(jobUid=""), "jobUid", id="no-job"),
        pytest.param(changed(jobUid="\ud800"), "jobUid", id="lone-surrogate"),
        pytest.param(changed(worker=True), "worker", id="worker-true"),
        pytest.param(changed(worker=-1), "worker", id="worker-negative"),
        pytest.param(changed(worker=512), "worker", id="worker-too-large"),
        pytest.param(changed(worker=1.0), "worker", id="worker-float"),
        pytest.param(changed(identity=None), "identity", id="no-identity"),
        pytest.param(FULL_REPORT.to_bytes().replace(b"1700000000.5", b"1e999"), "startedAt", id="infinite"),
        pytest.param(
            changed(identity={"podUid": "a", "start": 1, "startedAt": 10**400}), "startedAt", id="enormous"
        ),
        pytest.param(changed(state="Flying"), "state", id="unknown-state"),
        pytest.param(changed(state=["Running"]), "state", id="state-list"),
        pytest.param(changed(highest=10**12), "highest", id="highest-too-large"),
        pytest.param(changed(round=7), "round", id="round-number"),
        pytest.param(changed(outcome="maybe"), "outcome", id="unknown-outcome"),
        pytest.param(changed(failures=[{}]), "failures", id="empty-failure"),
        pytest.param(changed(failures=[{}] * 5), "at most 4", id="too-many-failures"),
        pytest.param(changed(leaving=1), "leaving", id="leaving-one"),
        pytest.param(changed(refusal={"reason": "Tired", "message": ""}), "reason", id="unknown-refusal"),
        pytest.param(changed(cpu={"a": {"b": 1}}), "cpu.a", id="nested-cpu"),
        pytest.param(changed(cpu={str(n): n for n in range(17)}), "more than 16", id="large-cpu"),
        pytest.param(changed(verdict={}), "verdict", id="empty-verdict"),
        pytest.param(changed(verdict={**VERDICT, "jobUid": "other"}), "another job", id="strangers-verdict"),
        pytest.param(changed(verdict={**VERDICT, "outcome": "Fine"}), "outcome", id="unknown-verdict"),
        pytest.param(changed(verdict={**VERDICT, "metrics": {"a": "x"}}), "metrics", id="metric-text"),
        pytest.param(changed(verdict={**VERDICT, "failure": {"reason": "x"}}), "reason", id="bad-failure"),
    ],
)
def test_what_is_wrong_ends_in_a_message_error(payload: bytes, says: str) -> None:
    """The error names the field."""
    with pytest.raises(MessageError, match=says):
        read_report(payload)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(field=st.sampled_from(sorted(json.loads(FULL_REPORT.to_bytes()))), value=JSON_VALUES)
def test_no_value_breaks_the_reader(field: str, value: Any) -> None:
    """Any JSON in any field is either read, and can be written again, or refused."""
    try:
        report = read_report(changed(**{field: value}))
    except MessageError:
        return
    assert read_report(report.to_bytes()) == report


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(Identity("a", 2, 0.0), Identity("a", 1, 99.0), True, id="one-pod-by-start"),
        pytest.param(Identity("a", 1, 99.0), Identity("a", 2, 0.0), False, id="one-pod-earlier-start"),
        pytest.param(Identity("a", 1, 2.0), Identity("b", 9, 1.0), True, id="two-pods-by-clock"),
        pytest.param(Identity("b", 1, 1.0), Identity("a", 1, 1.0), True, id="same-time-by-uid"),
        pytest.param(Identity("a", 1, 1.0), Identity("a", 1, 1.0), False, id="the-same"),
    ],
)
def test_who_started_later(one: Identity, other: Identity, *, expected: bool) -> None:
    """Start numbers tell in one pod, clocks between pods, and never both ways."""
    assert started_later(one, other) is expected
    assert not (started_later(one, other) and started_later(other, one))
