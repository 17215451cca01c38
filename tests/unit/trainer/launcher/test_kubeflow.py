"""Kubeflow's progress protocol: the reports of transformers become the contract's progress."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer.launcher.kubeflow import KubeflowPort, around_proxy, read_report

from tests.unit.trainer.launcher.loopback import Gang, eventually


def report(percent: Any = None, *, eta: Any = None, **metrics: Any) -> bytes:
    """A report as transformers' `KubeflowCallback` sends it."""
    status: dict[str, Any] = {"lastUpdatedTime": "2026-03-01T12:00:00+00:00"}
    if percent is not None:
        status["progressPercentage"] = percent
    if eta is not None:
        status["estimatedRemainingSeconds"] = eta
    if metrics:
        status["metrics"] = [{"name": name, "value": str(value)} for name, value in metrics.items()]
    return json.dumps({"trainerStatus": status}).encode()


def read(body: bytes, **before: Any) -> dict[str, Any] | None:
    """Without its time, which is that of the reading."""
    progress = read_report(body, before=before)
    if progress is not None:
        assert progress.pop("time").endswith("Z")
    return progress


@pytest.mark.parametrize(
    ("body", "before", "progress"),
    [
        (report(0, total_steps=500), {}, {"step": 0, "totalSteps": 500}),
        (
            report(
                20,
                eta=40,
                loss=0.6931,
                grad_norm=1.5,
                learning_rate=1e-05,
                epoch=0.2,
                current_step=100,
                total_steps=500,
                current_epoch=0.2,
            ),
            {},
            {"step": 100, "totalSteps": 500, "loss": 0.6931, "epoch": 0.2, "etaSeconds": 40},
        ),
        (
            report(100, eta=0, train_loss=0.5, epoch=1.0, train_samples_per_second=80.5),
            {"step": 480, "totalSteps": 500},
            {
                "step": 500,
                "totalSteps": 500,
                "loss": 0.5,
                "epoch": 1.0,
                "etaSeconds": 0,
                "samplesPerSecond": 80.5,
            },
        ),
        (report(37), {}, {"step": 37, "totalSteps": 100}),
        (report(250, total_steps=10), {}, {"step": 10, "totalSteps": 10}),
        (
            report(50, loss="nan", current_step=5, total_steps=10),
            {},
            {"step": 5, "totalSteps": 10},
        ),
        (report(50, current_step="1e300", total_steps=10), {}, {"step": 5, "totalSteps": 10}),
    ],
    ids=["begins", "runs", "ends", "percentage-alone", "beyond-its-end", "loss-is-no-number", "huge-step"],
)
def test_reports(body: bytes, before: dict[str, Any], progress: dict[str, Any]) -> None:
    """What is named is taken, what is not named is worked out or left out."""
    assert read(body, **before) == progress


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"trainerStatus": []}',
        b'{"trainerStatus": {}}',
        b'{"trainerStatus": {"metrics": 7}}',
        b'{"trainerStatus": {"metrics": [7, {"name": 1, "value": "2"}, {"name": "current_step"}]}}',
        report("50"),
        report(True),
        report(1e400),
        b'{"trainerStatus": {"progressPercentage": ' + b"9" * 400 + b"}}",
        b"[" * 16000,
    ],
)
def test_rubbish_is_no_progress(body: bytes) -> None:
    """And no exception either."""
    assert read(body) is None


@pytest.mark.parametrize(
    ("environ", "added"),
    [
        ({}, {}),
        ({"HTTPS_PROXY": "http://proxy"}, {}),
        ({"HTTP_PROXY": "http://proxy"}, {"no_proxy": "127.0.0.1"}),
        ({"http_proxy": "p", "NO_PROXY": ".svc,10.0.0.0/8"}, {"no_proxy": ".svc,10.0.0.0/8,127.0.0.1"}),
        ({"http_proxy": "p", "no_proxy": "a", "NO_PROXY": "b"}, {"no_proxy": "a,127.0.0.1"}),
    ],
    ids=["none", "another-scheme", "upper-case", "with-exceptions", "lower-case-counts"],
)
def test_proxy_is_gone_around(environ: dict[str, str], added: dict[str, str]) -> None:
    """The loopback's requests never leave for a proxy, and the user's own exceptions stay."""
    assert around_proxy(environ) == added


def _post(url: str, body: bytes | None) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


async def test_port(tmp_path: Path) -> None:
    """It takes reports under its own secret address, and says what is wrong with the others."""
    taken: list[Any] = []
    bugs: list[BaseException] = []
    port = KubeflowPort(taken.append, state_dir=str(tmp_path), on_error=bugs.append)
    environ = await port.start({})
    url = environ["KUBEFLOW_TRAINER_SERVER_URL"]
    assert url.startswith("http://127.0.0.1:")
    # Transformers sends nothing without a token.
    assert environ["KUBEFLOW_TRAINER_SERVER_TOKEN"] == str(tmp_path / "kubeflow-token")
    assert (tmp_path / "kubeflow-token").stat().st_size > 1
    cases = [
        (url, report(0, total_steps=4), 200),
        (url, report(50), 200),
        (url, b"rubbish", 400),
        (url, b" " * 100_000, 413),
        (url, None, 405),
        (url.rpartition("/")[0] + "/status", report(1), 404),
    ]
    answers = [await asyncio.to_thread(_post, where, body) for where, body, _ in cases]
    await port.close()
    assert answers == [expected for _, _, expected in cases]
    assert [(progress["step"], progress["totalSteps"]) for progress in taken] == [(0, 4), (2, 4)]
    assert bugs == []


async def test_users_own_server_stays(tmp_path: Path) -> None:
    """A URL that the user has set is where the reports go."""
    port = KubeflowPort(lambda _: None, state_dir=str(tmp_path), on_error=lambda _: None)
    assert await port.start({"KUBEFLOW_TRAINER_SERVER_URL": "https://elsewhere"}) == {}


REPORTER = """
import os, time, urllib.request
url = os.environ.get("KUBEFLOW_TRAINER_SERVER_URL")
if os.environ["RANK"] == "0":
    body = b'{"trainerStatus": {"metrics": [{"name": "current_step", "value": "7"}]}}'
    assert urllib.request.urlopen(urllib.request.Request(url, data=body)).status == 200
time.sleep(300)
"""


def test_status_shows_what_a_rank_reports(tmp_path: Path) -> None:
    """From a rank's environment to the page that the operator reads; a proxy of the user's is no obstacle."""
    command = ["python3", "-c", REPORTER]
    gang = Gang(tmp_path, workers=2, command=command)
    plain = gang.environ
    gang.environ = lambda pod: {**plain(pod), "HTTP_PROXY": "http://127.0.0.1:1"}  # type: ignore[method-assign]
    with gang:
        status = gang.pods[0].wait_for("its progress", lambda status: status["progress"])
        assert status["progress"]["step"] == 7


ALONE = """
import os, time, urllib.request
body = b'{"trainerStatus": {"metrics": [{"name": "current_step", "value": "7"}]}}'
for _ in range(2):
    urllib.request.urlopen(urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], data=body))
time.sleep(300 if os.environ["RANK"] == "0" else 0)
"""


def test_ranks_that_train_apart_are_told(tmp_path: Path) -> None:
    """Only rank 0 reports: that another does shows that it does not know of it."""
    with Gang(tmp_path, workers=2, command=["python3", "-c", ALONE]) as gang:
        zero, one = gang.pods
        eventually(lambda: "it trains by itself" in one.said(), "the warning")
        assert one.said().count("it trains by itself") == 1
        assert "it trains by itself" not in zero.said()
