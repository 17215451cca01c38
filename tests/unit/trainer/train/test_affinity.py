"""A rank of the built-in training puts its own threads where the plan has them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.unit.trainer.launcher.loopback import ROOT
from tests.unit.trainer.test_threads import ALL, two_cpus

SCRIPT = """
import json, os, sys, threading
from xeontrain_trainer.plan import Plan, RankPlan
from xeontrain_trainer.train.affinity import affinity, place_threads

first, second, bound = json.loads(sys.argv[1])
os.sched_setaffinity(0, [first])
with affinity([first, second]):
    made = threading.Thread(target=threading.Event().wait, daemon=True)
    made.start()
before = sorted(os.sched_getaffinity(made.native_id))
rank = RankPlan(0, (first,), 1, (), (), {})
place_threads(Plan((rank,), (first, second), (), bound, ()), local_rank=0)
after = sorted(os.sched_getaffinity(made.native_id))
place_threads(None, local_rank=0)
print(json.dumps([sorted(os.sched_getaffinity(0)), before, after]))
"""


@two_cpus
@pytest.mark.parametrize("bound", [True, False], ids=["pinned", "not-pinned"])
def test_threads_made_while_preparing_data_come_back(bound: bool) -> None:
    """They were made on all of the worker's CPUs, to read the data for its other ranks, and live on."""
    first, second = ALL[:2]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([first, second, bound])],
        env={"PYTHONPATH": str(ROOT / "trainer")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == [[first], [first, second], [first] if bound else [first, second]]
