"""oneCCL or Gloo: all ranks agree, the reason is told, and a run over oneCCL finds the plan's environment."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest
from xeontrain_trainer import contract

from tests.unit.trainer.launcher.loopback import ROOT, Gang
from tests.unit.trainer.train import fake_ccl, scenarios, tiny
from tests.unit.trainer.train.ranks import run_ranks, succeeded

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

TORCH = importlib.metadata.version("torch")
FITS = f"{TORCH.split('+')[0]}+cpu"


@pytest.mark.parametrize(
    ("wanted", "bindings", "name", "reason"),
    [
        pytest.param(
            "Auto", [(FITS, fake_ccl.WORKS)] * 2, "ccl", "oneCCL's binding loads in all ranks", id="fits"
        ),
        pytest.param(
            "CCL", [(FITS, fake_ccl.WORKS)] * 2, "ccl", "oneCCL's binding loads in all ranks", id="asked-for"
        ),
        pytest.param(
            "Gloo", [(FITS, fake_ccl.WORKS)] * 2, "gloo", "distributed.backend is Gloo", id="gloo-asked-for"
        ),
        pytest.param(
            "Auto",
            [None, None],
            "gloo",
            "2 of 2 ranks cannot use oneCCL: its binding for torch is not installed (rank ",
            id="absent",
        ),
        pytest.param(
            "Auto",
            [("1.9.0", fake_ccl.KILLS)] * 2,
            "gloo",
            "2 of 2 ranks cannot use oneCCL: its binding 1.9.0 was built for another torch than "
            f"{TORCH} (rank ",
            id="other-torch-is-not-imported",
        ),
        pytest.param(
            "Auto",
            [(FITS, fake_ccl.WORKS), (FITS, fake_ccl.LACKS_A_LIBRARY)],
            "gloo",
            f"1 of 2 ranks cannot use oneCCL: its binding {FITS} does not load: "
            "ImportError: libccl.so.1: cannot open shared object file (rank 1)",
            id="one-rank-lacks-a-library",
        ),
        pytest.param(
            "Auto",
            [(FITS, fake_ccl.KILLS), (FITS, fake_ccl.WORKS)],
            "gloo",
            f"1 of 2 ranks cannot use oneCCL: its binding {FITS} does not load: "
            "it ended with SIGSEGV (rank 0)",
            id="import-that-kills",
        ),
        pytest.param(
            "CCL",
            [None, (FITS, fake_ccl.WORKS)],
            None,
            "spec.distributed.backend: 1 of 2 ranks cannot use oneCCL: "
            "its binding for torch is not installed (rank 0). Write Gloo or Auto",
            id="asked-for-and-one-lacks-it",
        ),
    ],
)
def test_all_ranks_agree(
    tmp_path: Path,
    wanted: str,
    bindings: list[tuple[str, str] | None],
    name: str | None,
    reason: str,
) -> None:
    """Both ranks come to the same backend, for the same reason, which names a rank that is in the way."""
    per_rank = [
        {"TEST_SITE": fake_ccl.install(tmp_path / str(rank), version=one[0], module=one[1]) if one else ""}
        for rank, one in enumerate(bindings)
    ]
    environ = {contract.ENV_BACKEND: wanted}
    found = succeeded(run_ranks(scenarios.agree_backend, world_size=2, environ=environ, per_rank=per_rank))
    assert found[0] == found[1]
    assert found[0][0] == name
    assert found[0][1].startswith(reason)


def test_one_rank_alone_needs_no_oneccl(tmp_path: Path) -> None:
    """With Auto a single rank does not load what it has no use for."""
    environ = {"TEST_SITE": fake_ccl.install(tmp_path / "site", version=FITS, module=fake_ccl.KILLS)}
    found = succeeded(run_ranks(scenarios.agree_backend, world_size=1, environ=environ))
    assert found == [("gloo", "a rank alone has nobody to talk to")]


def test_a_run_over_oneccl_under_the_launcher(tiny_model: Path, tmp_path: Path) -> None:
    """Two launchers train over the backend `ccl`, and the binding finds the plan's variables in each rank."""
    site = fake_ccl.install(tmp_path / "site", version=FITS)
    path = tiny.write_csv(tmp_path / "train.csv", tiny.rows(40))
    document = tmp_path / "training.json"
    training = tiny.training(tiny_model, train=[path], maxSteps=4)
    document.write_text(json.dumps({"contract": contract.CONTRACT_VERSION, "training": training}))
    python_path = f"PYTHONPATH={site}:{ROOT / 'trainer'}"
    command = ["env", python_path, sys.executable, "-m", "xeontrain_trainer.train"]
    with Gang(tmp_path, workers=2, command=command, BACKEND="CCL", TRAINING_FILE=document) as gang:
        assert gang.pods[0].exit_code() == 0, gang.pods[0].said()
        lines = [
            json.loads(line) for line in (gang.pods[0].state / "progress.jsonl").read_text().splitlines()
        ]
    assert {line["backend"] for line in lines} == {"CCL"}
    assert lines[0]["backendReason"] == "oneCCL's binding loads in all ranks"
    for worker, pod in enumerate(gang.pods):
        plan = json.loads((pod.state / "plan.json").read_text())
        planned = plan["ranks"][0]["environment"]
        seen = json.loads((Path(site) / "oneccl_bindings_for_pytorch" / f"seen-{worker}.json").read_text())
        assert seen.items() >= {name: planned[name] for name in planned if name in seen}.items()
        assert (seen["CCL_LOCAL_RANK"], seen["CCL_LOCAL_SIZE"]) == ("0", "1")
        assert seen["CCL_PROCESS_LAUNCHER"] == "none"
        assert seen["CCL_ATL_TRANSPORT"] == "ofi"
        assert (seen["FI_PROVIDER"], seen["FI_TCP_IFACE"], seen["CCL_KVS_IFACE"]) == ("tcp", "lo", "lo")
        assert len(seen["CCL_WORKER_AFFINITY"].split(",")) == int(seen["CCL_WORKER_COUNT"])
