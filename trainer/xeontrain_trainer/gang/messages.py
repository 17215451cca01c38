"""What members and coordinator say to each other. A member reports, the coordinator answers; nothing else is
sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, TypeVar

from ..contract import CONTRACT_VERSION
from .identity import Identity, RoundId
from .verdict import read_verdict
from .wire import MAX_ROUND, MAX_WORKERS, Fields, MessageError, decode, encode

T = TypeVar("T")

WAITING = "Waiting"
STARTING = "Starting"
RUNNING = "Running"
STOPPING = "Stopping"
PARKED = "Parked"
STATES = frozenset({WAITING, STARTING, RUNNING, STOPPING, PARKED})

SUCCESS = "success"
FAILED = "failed"
STOPPED = "stopped"
YIELDED = "yielded"
OUTCOMES = frozenset({SUCCESS, FAILED, STOPPED, YIELDED})

WAIT = "wait"
RUN = "run"
STOP = "stop"
SAVE = "save"
DONE = "done"
SUPERSEDED = "superseded"
ELSEWHERE = "elsewhere"
KINDS = frozenset({WAIT, RUN, STOP, SAVE, DONE, SUPERSEDED, ELSEWHERE})

REFUSAL_REASONS = frozenset({"NotPinned", "PlanImpossible"})

MAX_FAILURES_IN_REPORT = 4
MAX_UNFINISHED = 16
MAX_TEXT = 1024
MAX_SEQUENCE = 1 << 53
MAX_RANKS = 4096


@dataclass(frozen=True)
class RankFailure:
    """A rank that ended badly by itself. `time`: seconds since the epoch. `consequence`: it died of a
    connection that a peer closed, so another rank is the cause. Exactly one of `exit_code` and `signal` is
    set."""

    worker: int
    rank: int
    exit_code: Optional[int]
    signal: Optional[int]
    message: str
    time: float
    consequence: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "worker": self.worker,
            "rank": self.rank,
            "exitCode": self.exit_code,
            "signal": self.signal,
            "message": self.message,
            "time": self.time,
            "consequence": self.consequence,
        }

    @classmethod
    def read(cls, fields: Fields) -> RankFailure:
        """Raises MessageError."""
        return cls(
            worker=fields.integer("worker", low=0, high=MAX_WORKERS - 1),
            rank=fields.integer("rank", low=0, high=MAX_WORKERS * MAX_RANKS),
            exit_code=fields.optional_integer("exitCode", low=0, high=255),
            signal=fields.optional_integer("signal", low=1, high=64),
            message=fields.text("message", limit=MAX_TEXT),
            time=fields.number("time"),
            consequence=fields.flag("consequence"),
        )


@dataclass(frozen=True)
class Refusal:
    """Why this worker can never run a round: a user error that ends the job before ranks start.

    `detail`: for NotPinned the reason of `cpu`, such as SharedPool; else empty.
    """

    reason: str
    message: str
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"reason": self.reason, "message": self.message, "detail": self.detail}

    @classmethod
    def read(cls, fields: Fields) -> Refusal:
        """Raises MessageError."""
        return cls(
            reason=fields.choice("reason", options=REFUSAL_REASONS),
            message=fields.text("message", limit=MAX_TEXT),
            detail=fields.text("detail", limit=64),
        )


@dataclass(frozen=True)
class Order:
    """A round as it is ordered: what every rank of it needs to know."""

    round: RoundId
    ranks_per_worker: int
    master_addr: str
    master_port: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "round": self.round.to_json(),
            "ranksPerWorker": self.ranks_per_worker,
            "masterAddr": self.master_addr,
            "masterPort": self.master_port,
        }

    @classmethod
    def read(cls, fields: Fields) -> Order:
        """Raises MessageError."""
        return cls(
            round=RoundId.read(fields.child("round")),
            ranks_per_worker=fields.integer("ranksPerWorker", low=1, high=MAX_RANKS),
            master_addr=fields.text("masterAddr", limit=255, low=1),
            master_port=fields.integer("masterPort", low=1, high=65535),
        )


@dataclass(frozen=True)
class Report:
    """What a member says of itself.

    `sequence` grows with each report of one identity, so that a late copy of an earlier one tells nothing.
    `ranks`: the most ranks that this worker can hold, or wants where `ranksPerWorker` is Auto.
    `highest`: the highest round it knows of; it will never start that one or a lower one.
    `round`: the round it obeys or has obeyed last, None before the first of this launcher.
    `alive`: ranks of it may still run. `outcome`: how `round` ended here, None while it has not; `yielded`
    where all its ranks ended with 0 after they were asked to save and end.
    `asked`: the gang's word that they are asked has come. `finished`: rank 0 of `round`, which is here, has
    left its final metrics.
    `unfinished`: global ranks of it that still run although others of it have succeeded, the first
    MAX_UNFINISHED; None while none has succeeded in this round.
    `leaving`: it has been asked to stop and will not join another round.
    `coordinator`: the latest-started coordinator that it has heard lately.
    `cpu`: the contract's `cpu` object. `verdict`: the result document, if it knows one.
    """

    job_uid: str
    worker: int
    identity: Identity
    sequence: int
    state: str
    ranks: int
    highest: int
    round: Optional[RoundId] = None
    alive: bool = False
    outcome: Optional[str] = None
    failures: tuple[RankFailure, ...] = ()
    leaving: bool = False
    asked: bool = False
    finished: bool = False
    refusal: Optional[Refusal] = None
    coordinator: Optional[Identity] = None
    cpu: Optional[Mapping[str, Any]] = None
    verdict: Optional[Mapping[str, Any]] = None
    unfinished: Optional[tuple[int, ...]] = None

    def to_bytes(self) -> bytes:
        """The message as it is sent."""
        return encode(
            {
                "contract": CONTRACT_VERSION,
                "jobUid": self.job_uid,
                "worker": self.worker,
                "identity": self.identity.to_json(),
                "sequence": self.sequence,
                "state": self.state,
                "ranks": self.ranks,
                "highest": self.highest,
                "round": self.round and self.round.to_json(),
                "alive": self.alive,
                "outcome": self.outcome,
                "failures": [failure.to_json() for failure in self.failures],
                "unfinished": self.unfinished,
                "leaving": self.leaving,
                "asked": self.asked,
                "finished": self.finished,
                "refusal": self.refusal and self.refusal.to_json(),
                "coordinator": self.coordinator and self.coordinator.to_json(),
                "cpu": self.cpu,
                "verdict": self.verdict,
            }
        )


def read_report(payload: bytes) -> Report:
    """The report in `payload`. Raises MessageError."""
    fields = decode(payload)
    _check_contract(fields)
    job_uid = fields.text("jobUid", limit=128, low=1)
    outcome = None if fields.raw.get("outcome") is None else fields.choice("outcome", options=OUTCOMES)
    failures = fields.children("failures", limit=MAX_FAILURES_IN_REPORT)
    cpu = fields.optional_child("cpu")
    return Report(
        job_uid=job_uid,
        worker=fields.integer("worker", low=0, high=MAX_WORKERS - 1),
        identity=Identity.read(fields.child("identity")),
        sequence=fields.integer("sequence", low=1, high=MAX_SEQUENCE),
        state=fields.choice("state", options=STATES),
        ranks=fields.integer("ranks", low=1, high=MAX_RANKS),
        highest=fields.integer("highest", low=0, high=MAX_ROUND),
        round=_optional(fields, "round", RoundId.read),
        alive=fields.flag("alive"),
        outcome=outcome,
        failures=tuple(RankFailure.read(failure) for failure in failures),
        leaving=fields.flag("leaving"),
        asked=fields.flag("asked"),
        finished=fields.flag("finished"),
        refusal=_optional(fields, "refusal", Refusal.read),
        coordinator=_optional(fields, "coordinator", Identity.read),
        cpu=None if cpu is None else cpu.scalars(limit=16, text_limit=MAX_TEXT),
        verdict=read_verdict(fields.optional_child("verdict"), job_uid=job_uid),
        unfinished=_unfinished(fields),
    )


def _unfinished(fields: Fields) -> Optional[tuple[int, ...]]:
    if fields.raw.get("unfinished") is None:
        return None
    return fields.integers("unfinished", limit=MAX_UNFINISHED, high=MAX_WORKERS * MAX_RANKS)


@dataclass(frozen=True)
class Answer:
    """What the coordinator says to one report.

    `sequence`: the report's. `fence`: the highest round that is over; the member must never start it or a
    lower one. `order` comes with `run`, `verdict` with `done`, and `round` with `stop` and `save`: the very
    round whose ranks are to end at once, or to save and end. `superseded`: a later-started pod holds this
    worker's place. `elsewhere`: a later-started coordinator is about.
    """

    kind: str
    job_uid: str
    coordinator: Identity
    to: Identity
    sequence: int
    fence: int = 0
    order: Optional[Order] = None
    round: Optional[RoundId] = None
    verdict: Optional[Mapping[str, Any]] = None

    def to_bytes(self) -> bytes:
        """The message as it is sent."""
        return encode(
            {
                "contract": CONTRACT_VERSION,
                "kind": self.kind,
                "jobUid": self.job_uid,
                "coordinator": self.coordinator.to_json(),
                "to": self.to.to_json(),
                "sequence": self.sequence,
                "fence": self.fence,
                "order": self.order and self.order.to_json(),
                "round": self.round and self.round.to_json(),
                "verdict": self.verdict,
            }
        )


def read_answer(payload: bytes) -> Answer:
    """The answer in `payload`. Raises MessageError."""
    fields = decode(payload)
    _check_contract(fields)
    kind = fields.choice("kind", options=KINDS)
    job_uid = fields.text("jobUid", limit=128, low=1)
    return Answer(
        kind=kind,
        job_uid=job_uid,
        coordinator=Identity.read(fields.child("coordinator")),
        to=Identity.read(fields.child("to")),
        sequence=fields.integer("sequence", low=1, high=MAX_SEQUENCE),
        fence=fields.integer("fence", low=0, high=MAX_ROUND),
        order=Order.read(fields.child("order")) if kind == RUN else None,
        round=RoundId.read(fields.child("round")) if kind in (STOP, SAVE) else None,
        verdict=read_verdict(fields.child("verdict"), job_uid=job_uid) if kind == DONE else None,
    )


def _optional(fields: Fields, key: str, read: Callable[[Fields], T]) -> Optional[T]:
    child = fields.optional_child(key)
    return None if child is None else read(child)


def _check_contract(fields: Fields) -> None:
    version = fields.integer("contract", low=0, high=MAX_ROUND)
    if version != CONTRACT_VERSION:
        raise MessageError(f"message.contract: {version}, this launcher speaks {CONTRACT_VERSION}")
