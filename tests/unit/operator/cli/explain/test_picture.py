"""The order of the picture's boxes, for machines whose sockets, nodes and caches do not nest as usual."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.cli.explain.answer import Answer
from xeontrain_operator.cli.explain.picture import Role, colour, make_picture

Place = dict[str, Any]


def answer(*places: Place) -> Answer:
    """Rank 0 on CPU 0, and the others of these CPUs unused."""
    defaults = {"socket": 0, "node": 0, "die": 0, "l3": None, "efficient": False}
    cpus = [{**defaults, "number": n, "core": n, **place} for n, place in enumerate(places)]
    rank = {"rank": 0, "numaNode": 0, "computeCpus": [0], "commCpus": [], "env": {"OMP_NUM_THREADS": "1"}}
    machine = {"cpus": cpus, "others": [], "model": "", "instructionSet": "AVX2"}
    return Answer(
        public={
            "ranks": [rank],
            "unusedCpus": list(range(1, len(cpus))),
            "warnings": [],
            "machine": machine,
        },
        bound=True,
    )


@pytest.mark.parametrize(
    ("places", "boxes"),
    [
        pytest.param(
            [{"node": 0}, {"node": 1}, {"node": 2, "socket": 1}],
            [
                ("Socket 0", [("NUMA node 0", [""]), ("NUMA node 1", [""])]),
                ("Socket 1", [("NUMA node 2", [""])]),
            ],
            id="nodes-in-sockets",
        ),
        pytest.param(
            [{"socket": 1, "l3": 0}, {"socket": 0, "l3": 1}],
            [("Sockets 0-1", [("NUMA node 0", ["socket 0", "socket 1"])])],
            id="sockets-in-a-node",
        ),
        pytest.param(
            [{"die": 0}, {"die": 1}],
            [("Socket 0", [("NUMA node 0", ["die 0", "die 1"])])],
            id="dies",
        ),
        pytest.param(
            [{"l3": 0}, {"l3": 1}, {"l3": 1}],
            [("Socket 0", [("NUMA node 0", ["shared L3", "shared L3"])])],
            id="caches",
        ),
        pytest.param(
            [{"efficient": True}, {"efficient": False}],
            [("Socket 0", [("NUMA node 0", ["fast cores", "slower cores"])])],
            id="kinds",
        ),
    ],
)
def test_boxes(places: list[Place], boxes: list[Any]) -> None:
    sockets = make_picture(answer(*places)).sockets
    assert [
        (socket.name, [(node.name, [group.name for group in node.groups]) for node in socket.nodes])
        for socket in sockets
    ] == boxes


def test_roles() -> None:
    """Sibling threads share a core's box; who is no rank's is unused."""
    picture = make_picture(answer({}, {"core": 0}))
    assert [len(core.threads) for core in picture.sockets[0].nodes[0].groups[0].cores] == [2]
    assert [(thread.role, thread.rank) for thread in picture.threads] == [
        (Role.COMPUTE, 0),
        (Role.UNUSED, None),
    ]


def test_neighbouring_ranks_have_different_colours() -> None:
    assert all(colour(rank) != colour(rank + 1) for rank in range(64))
