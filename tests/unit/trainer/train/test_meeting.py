"""A rank that cannot reach rank 0 says so, in time and by name."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest
from xeontrain_trainer.launcher.causes import is_consequence
from xeontrain_trainer.train import meeting
from xeontrain_trainer.train.environment import Environment
from xeontrain_trainer.train.meeting import UnreachableRankError, listen, reach

from tests.unit.trainer.launcher.loopback import free_port


def place(rank: int, *, port: int, address: str = "127.0.0.1", **more: Any) -> Environment:
    """A rank of two, on two workers."""
    names = {
        "WORLD_SIZE": "2",
        "RANK": str(rank),
        "GROUP_RANK": str(rank),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "XEONTRAIN_RENDEZVOUS_TIMEOUT_SECONDS": "1",
    }
    return Environment.from_environ({**names, **more})


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "AGAIN_SECONDS", 0.05)


def test_rank_0_is_there_from_its_first_moment() -> None:
    """It need not accept anybody for the others to know that they get through."""
    port = free_port()
    listener = listen(place(0, port=port))
    assert listener is not None
    with listener:
        reach(place(1, port=port))


def test_who_comes_first_waits_for_rank_0() -> None:
    """Ranks start in any order."""
    port = free_port()
    waits = threading.Thread(target=reach, args=(place(1, port=port, **PATIENT),))
    waits.start()
    time.sleep(0.2)
    listener = listen(place(0, port=port))
    assert listener is not None
    with listener:
        waits.join(60)
        assert not waits.is_alive()


PATIENT = {"XEONTRAIN_RENDEZVOUS_TIMEOUT_SECONDS": "60"}


@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.1", "nothing listens there"), ("no-such-host.invalid", "")],
    ids=["refused", "no-such-name"],
)
def test_who_does_not_get_through_is_named(address: str, why: str) -> None:
    """Rank, worker, place, limit, cause and remedy; and the launcher takes it for a cause, not for the
    consequence of another's end."""
    port = free_port()
    with pytest.raises(UnreachableRankError) as raised:
        reach(place(1, port=port, address=address))
    said = str(raised.value)
    assert said.startswith(f"rank 1 of worker 1 does not reach rank 0 at {address} port {port} for 1 s ")
    assert "spec.distributed.timeoutSeconds" in said
    assert why in said
    assert "Network policies" in said
    assert not is_consequence(said, exit_code=1)


def test_a_firewall_that_drops_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is given up each time, and at last for good."""

    def no_answer(*_arguments: object, **_options: object) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", no_answer)
    with pytest.raises(UnreachableRankError, match=r"timeoutSeconds\): no answer\. Network"):
        reach(place(1, port=29500, XEONTRAIN_RENDEZVOUS_TIMEOUT_SECONDS="0"))


def test_a_port_that_is_taken_is_named() -> None:
    """Rank 0 cannot be where the others look for it."""
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnreachableRankError, match=f"port {port} of rank 0 cannot be had: Address"):
            listen(place(0, port=port))


def test_nobody_listens_without_others() -> None:
    """A single rank meets nobody, and a rank that is not the first serves nobody."""
    assert listen(Environment.from_environ({})) is None
    assert listen(place(1, port=free_port())) is None
    reach(Environment.from_environ({}))
