"""Whole lives of a gang, with real launchers, real sockets and real ranks on this machine's loopback."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainer.launcher.loopback import JOB_UID, Gang, eventually

METRICS = """[ "$RANK" = 0 ] && echo '{"metrics": {"accuracy": 0.5}, "model": "/m"}' > $XEONTRAIN_METRICS_FILE
exit 0"""


# Real processes on a machine that may be busy with much else.
pytestmark = pytest.mark.timeout(900)


def shell(script: str) -> list[str]:
    """A program in a line."""
    return ["sh", "-c", script]


def first_round_hangs(then: str = "exit 0") -> list[str]:
    """Ranks of round 1 run until they are stopped; later ones do `then`."""
    return shell(f'[ "$XEONTRAIN_ROUND" = 1 ] && exec sleep 300; {then}')


def running(status: dict[str, Any]) -> bool:
    """All ranks of the worker run."""
    return bool(status["state"] == "Running")


def parked(status: dict[str, Any]) -> bool:
    """The worker is parked with a verdict."""
    return bool(status["state"] == "Parked" and status["verdict"])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_all_workers_succeed(tmp_path: Path, workers: int) -> None:
    """Worker 0 publishes the verdict and exits 0; the others keep it in their marker and park."""
    with Gang(tmp_path, workers=workers, command=shell(METRICS), JOB_DIR=tmp_path / "job") as gang:
        zero, *others = gang.pods
        assert zero.exit_code() == 0, zero.said()
        assert zero.document() == {
            "contract": 1,
            "jobUid": JOB_UID,
            "worker": 0,
            "round": 1,
            "outcome": "Succeeded",
            "metrics": {"accuracy": 0.5},
            "model": "/m",
            "failures": 0,
            "failure": None,
        }
        assert json.loads((tmp_path / "job" / "result.json").read_text()) == zero.document()
        assert json.loads((tmp_path / "job" / "round.json").read_text())["round"] == 1
        assert zero.marker() == zero.document()
        for pod in others:
            pod.wait_for("it parks", parked)
            eventually(pod.marker, "a marker")
            assert pod.marker() == zero.document()
            assert pod.terminate() == 0


def test_ranks_get_torchruns_environment(tmp_path: Path) -> None:
    """Every rank knows its place in the world, and all meet at one address."""
    names = (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
    )
    line = " ".join(f"${name}" for name in names)
    with Gang(tmp_path, workers=2, command=shell(f"echo place {line}"), RANKS_PER_WORKER=2) as gang:
        if gang.pods[0].exit_code() != 0 or "more ranks than" in gang.pods[0].said():
            raise AssertionError(gang.pods[0].said())
        gang.pods[1].wait_for("it parks", parked)
        said = "".join(pod.said() for pod in gang.pods)
        found = sorted(part.split("place ")[1] for part in said.splitlines() if "place " in part)
        port = gang.master_port
        assert found == [
            f"{rank} 4 {rank % 2} 2 {rank // 2} 127.0.0.1 {port + offset}"
            for rank, offset in ((0, 0), (1, 0), (2, 0), (3, 0))
        ]


def test_a_ranks_death_makes_a_new_round(tmp_path: Path) -> None:
    """The same launchers start all ranks again; the failure is counted once, with its cause."""
    script = (
        '[ "$XEONTRAIN_ROUND$RANK" = 11 ] && echo "ValueError: no luck" >&2 && exit 3;'
        '[ "$XEONTRAIN_ROUND" = 1 ] && exec sleep 300; while [ ! -e go ]; do sleep 0.1; done'
    )
    with Gang(tmp_path, workers=2, command=shell(script)) as gang:
        status = gang.pods[0].wait_for("round 2 runs", lambda s: s["round"] == 2 and running(s))
        assert status["failuresCounted"] == 1
        assert [{**failure, "time": "any"} for failure in status["failures"]] == [
            {
                "id": f"{gang.pods[0].uid}/1",
                "round": 1,
                "worker": 1,
                "rank": 1,
                "exitCode": 3,
                "signal": None,
                "reason": "RankFailed",
                "message": "ValueError: no luck",
                "time": "any",
            }
        ]
        assert [member["podUid"] for member in status["members"]] == [pod.uid for pod in gang.pods]
        for pod in gang.pods:
            (pod.folder / "go").touch()
        assert gang.pods[0].exit_code() == 0
        assert gang.pods[0].document()["outcome"] == "Succeeded"
        assert gang.pods[0].document()["failures"] == 1


@pytest.mark.parametrize(
    ("command", "settings", "rounds", "failure"),
    [
        pytest.param(
            shell('[ "$RANK" = 1 ] && echo "OSError: disk" >&2 && exit 3; exec sleep 300'),
            {"BACKOFF_LIMIT": 1},
            2,
            {"rank": 1, "exitCode": 3, "reason": "BackoffLimitExceeded", "message": "OSError: disk"},
            id="backoffLimit",
        ),
        pytest.param(
            shell('[ "$RANK" = 1 ] && kill -9 $$; exec sleep 300'),
            {"BACKOFF_LIMIT": 3, "FAILURES_COUNTED": 3},
            1,
            {"rank": 1, "signal": 9, "reason": "BackoffLimitExceeded", "message": "ended by SIGKILL"},
            id="counted-before",
        ),
        pytest.param(
            shell('[ "$RANK" = 1 ] && echo "column text is not there" >&2 && exit 78; exec sleep 300'),
            {},
            1,
            {"rank": 1, "exitCode": 78, "reason": "UserError", "message": "column text is not there"},
            id="user-error",
        ),
        pytest.param(
            shell(
                '[ "$RANK" = 1 ] && echo "RuntimeError: Connection closed by peer" >&2 && exit 1; sleep 1;'
                ' echo "ValueError: first" >&2; exit 79'
            ),
            {},
            1,
            {"rank": 0, "worker": 0, "exitCode": 79, "reason": "UserError", "message": "ValueError: first"},
            id="closed-connection-is-no-cause",
        ),
    ],
)
def test_failures_end_the_job(
    tmp_path: Path, command: list[str], settings: dict[str, Any], rounds: int, failure: dict[str, Any]
) -> None:
    """The document names the rank, how it ended, and its last words."""
    with Gang(tmp_path, workers=2, command=command, JOB_DIR=tmp_path / "job", **settings) as gang:
        assert gang.pods[0].exit_code() == 0, gang.pods[0].said()
        document = gang.pods[0].document()
        assert document["outcome"] == "Failed"
        assert document["round"] == rounds
        found = document["failure"]
        assert found == {"worker": 1, "exitCode": None, "signal": None, **failure}
        assert not (tmp_path / "job" / "result.json").exists()
        gang.pods[1].wait_for("it parks", parked)


@pytest.mark.parametrize(
    ("settings", "reason", "says"),
    [
        ({"PINNING": "Required"}, "NotPinned", "spec.pinning is Required"),
        ({"RANKS_PER_WORKER": 64}, "PlanImpossible", "64"),
        ({"INTERFACE": "eth77"}, "PlanImpossible", "spec.distributed.interface is eth77"),
    ],
    ids=["not-pinned", "more-ranks-than-cores", "no-such-interface"],
)
def test_what_cannot_work_ends_before_any_rank(
    tmp_path: Path, settings: dict[str, Any], reason: str, says: str
) -> None:
    """No rank is started for a job that this machine can never run as asked."""
    with Gang(tmp_path, workers=2, command=shell("touch started"), **settings) as gang:
        assert gang.pods[0].exit_code() == 0, gang.pods[0].said()
        document = gang.pods[0].document()
        assert document["outcome"] == "Failed"
        assert document["failure"]["reason"] == reason
        assert says in document["failure"]["message"]
        assert not list(tmp_path.glob("*/started"))


def test_a_program_that_is_not_there_is_a_user_error(tmp_path: Path) -> None:
    """The document says which program."""
    with Gang(tmp_path, workers=1, command=["no-such-program"]) as gang:
        assert gang.pods[0].exit_code() == 0
        failure = gang.pods[0].document()["failure"]
        assert failure["reason"] == "UserError"
        assert failure["exitCode"] == 127
        assert "no-such-program" in failure["message"]


@pytest.mark.parametrize("worker", [0, 1])
@pytest.mark.parametrize("same_pod", [True, False], ids=["container-restarts", "pod-replaced"])
def test_a_launcher_that_dies_makes_a_new_round(tmp_path: Path, worker: int, same_pod: bool) -> None:
    """With its emptyDir or without: the gang goes on with a later round, and no failure is counted."""
    with Gang(tmp_path, workers=2, command=first_round_hangs(), JOB_DIR=tmp_path / "job") as gang:
        for pod in gang.pods:
            pod.wait_for("round 1 runs", running)
        gang.pods[worker].kill()
        if same_pod:
            gang.pods[worker].start()
        else:
            gang.replace(worker)
        assert gang.pods[0].exit_code() == 0, gang.pods[0].said()
        document = gang.pods[0].document()
        assert document["outcome"] == "Succeeded"
        assert document["round"] == 2
        assert document["failures"] == 0


def test_a_parked_launcher_writes_the_message_again(tmp_path: Path) -> None:
    """The container that the kubelet starts after the end shows verdict and log, and serves until it is
    deleted."""
    with Gang(tmp_path, workers=1, command=shell("echo the last words")) as gang:
        zero = gang.pods[0]
        assert zero.exit_code() == 0
        document = zero.document()
        for _ in range(2):
            zero.termination.write_text("")
            zero.start()
            status = zero.wait_for("it parks", parked)
            assert status["verdict"] == document
            assert zero.document() == document
            assert "the last words" in zero.said()
            assert b"the last words" in zero.get("/log")[1]
            assert zero.get("/readyz")[0] == 200
            assert zero.get("/healthz")[0] == 200
            started = time.monotonic()
            assert zero.terminate() == 0
            assert time.monotonic() - started < 10


def test_a_replaced_worker_0_learns_the_verdict(tmp_path: Path) -> None:
    """From storage if there is any; else from a member that has heard it."""
    for name, settings in (("storage", {"JOB_DIR": tmp_path / "job"}), ("member", {})):
        folder = tmp_path / name
        folder.mkdir()
        with Gang(folder, workers=2, command=shell(METRICS), **settings) as gang:
            assert gang.pods[0].exit_code() == 0
            document = gang.pods[0].document()
            gang.pods[1].wait_for("it parks", parked)
            if settings:
                gang.pods[1].kill()
            new = gang.replace(0)
            assert new.exit_code() == 0, new.said()
            assert new.document() == document
            assert new.marker() == document


def test_a_rank_that_others_wait_for_is_named(tmp_path: Path) -> None:
    """A script that hangs at its end in one rank: which one, and since when, until it ends."""
    script = '[ "$RANK" != 1 ] && exit 0; while [ ! -e go ]; do sleep 0.1; done'
    with Gang(tmp_path, workers=2, command=shell(script)) as gang:
        zero, one = gang.pods
        status = zero.wait_for("it names the rank", lambda s: s["stragglers"])
        assert (status["stragglers"]["ranks"], status["stragglers"]["count"]) == ([1], 1)
        assert status["members"][1]["stateSeconds"] >= 0
        (one.folder / "go").touch()
        assert zero.exit_code() == 0
        assert zero.document()["outcome"] == "Succeeded"


def test_a_bug_ends_the_container_cleanly(tmp_path: Path) -> None:
    """With ranks alive: one traceback, the bug in the termination message, no rank and no complaint left."""
    bug = (
        "from xeontrain_trainer.launcher.coordinator_loop import CoordinatorLoop\n"
        "def broken(self):\n"
        "    if self.coordinator.stragglers(): raise RuntimeError('a bug')\n"
        "CoordinatorLoop._tell_stragglers = broken"
    )
    script = '[ "$RANK" = 1 ] && exit 0; echo $$ > pid; exec sleep 300'
    with Gang(tmp_path, workers=2, command=shell(script), prelude=bug) as gang:
        zero = gang.pods[0]
        assert zero.exit_code() == 1
        assert zero.said().count("Traceback") == 1
        assert "destroyed" not in zero.said()
        assert zero.termination.read_text() == "a bug of the launcher: RuntimeError: a bug"
        pid = int((zero.folder / "pid").read_text())
        eventually(lambda: not _sleeps(pid), "the end of its rank")


def _sleeps(pid: int) -> bool:
    """Whether the rank still runs. By its program: a busy machine gives its number away again at once."""
    try:
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_sigterm_ends_the_ranks_of_all_workers(tmp_path: Path) -> None:
    """The launcher leaves without a marker, the others wait, and a replacement makes the next round. No
    failure."""
    with Gang(tmp_path, workers=2, command=first_round_hangs()) as gang:
        zero, one = gang.pods
        for pod in gang.pods:
            pod.wait_for("round 1 runs", running)
        assert one.terminate() == 0, one.said()
        assert one.marker() is None
        status = zero.wait_for("the ranks have ended", lambda s: s["state"] == "Waiting")
        assert status["verdict"] is None
        gang.replace(1)
        assert zero.exit_code() == 0, zero.said()
        assert zero.document()["failures"] == 0
        assert zero.document()["outcome"] == "Succeeded"


def test_sigterm_to_all_ends_all(tmp_path: Path) -> None:
    """As when the job is deleted: nobody needs another to end, and a rank that ignores SIGTERM is killed."""
    stubborn = shell('trap "" TERM; while :; do sleep 0.2; done')
    with Gang(tmp_path, workers=2, command=stubborn, GRACE_PERIOD_SECONDS=15) as gang:
        for pod in gang.pods:
            pod.wait_for("round 1 runs", running)
        for pod in reversed(gang.pods):
            assert pod.process is not None
            pod.process.terminate()
        assert [pod.exit_code() for pod in gang.pods] == [0, 0]
        assert [pod.marker() for pod in gang.pods] == [None, None]


def test_of_two_pods_of_one_worker_the_later_counts(tmp_path: Path) -> None:
    """The earlier one stops its ranks and parks, and the round that follows is the later one's."""
    with Gang(
        tmp_path, workers=2, command=first_round_hangs("while [ ! -e go ]; do sleep 0.1; done")
    ) as gang:
        old = gang.pods[1]
        for pod in gang.pods:
            pod.wait_for("round 1 runs", running)
        new = gang.replace(1)
        new.wait_for("round 2 runs", lambda s: s["round"] == 2 and running(s))
        assert old.wait_for("it parks", lambda s: s["state"] == "Parked")["round"] == 1
        for pod in gang.pods:
            (pod.folder / "go").touch()
        assert gang.pods[0].exit_code() == 0


def test_park_only_never_joins(tmp_path: Path) -> None:
    """A pod of a job that is over and keeps its pods starts no rank."""
    with Gang(tmp_path, workers=1, command=shell("touch started"), PARK_ONLY=1) as gang:
        status = gang.pods[0].wait_for("it parks", lambda s: s["state"] == "Parked")
        assert status["round"] == 0
        assert gang.pods[0].terminate() == 0
        assert not (gang.pods[0].folder / "started").exists()
