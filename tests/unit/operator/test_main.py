"""The operator's log."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_LINES = """
import logging
from xeontrain_operator.main import configure_logging
configure_logging(json={json})
logging.getLogger("xeontrain_operator.reconcile").info("a job %s", "x")
logging.getLogger("kopf.objects").info("an event came")
"""


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "plain"])
def test_one_line_a_record_and_none_for_watch_events(as_json: bool) -> None:
    """JSON by setting; kopf's line for each event that a watch brings is left out in both forms."""
    done = subprocess.run(
        [sys.executable, "-c", _LINES.format(json=as_json)], capture_output=True, text=True, check=True
    )
    (line,) = done.stderr.splitlines()
    assert "a job x" in line
    if as_json:
        assert json.loads(line)["message"] == "a job x"
