"""What a person types and sees: a plan for a job, a machine or a recording, or one sentence about why not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result
from xeontrain_operator.cli.main import app
from xeontrain_trainer.machine import Machine

from tests.contract.cases.edits import COMMAND, TRAINING, edited
from tests.unit.trainer.machines import build, pack, tree_of, write
from tests.unit.trainer.recordings import FOLDER, needs_recordings

XEON = {"sockets": 2, "cores": 8, "threads": 2}
PART = [*range(1, 8), *range(17, 24), *range(9, 16), *range(25, 32)]
SVG = "{http://www.w3.org/2000/svg}"


def explain(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def record(folder: Path, *, granted: list[int] | None = None, **shape: Any) -> Path:
    """A recorded machine: two sockets of eight cores with two threads, or another shape."""
    whole = build(**(shape or XEON))
    machine = whole if granted is None else build(**(shape or XEON), granted=granted)
    write(folder / "machine", tree_of(machine, whole))
    return folder / "machine"


def job_file(folder: Path, edits: dict[str, Any], *, base: dict[str, Any] = COMMAND) -> Path:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(edited(base, edits)))
    return path


def answer(*arguments: object) -> dict[str, Any]:
    result = explain("--json", *arguments)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "tar"])
def test_json_of_a_recorded_machine(tmp_path: Path, packed: bool) -> None:
    """Core 0 of each socket is the system's: seven cores a rank, and an idle sibling to communicate."""
    root = record(tmp_path, granted=PART)
    document = answer("--sysfs", pack(root) if packed else root)
    assert list(document) == ["ranks", "unusedCpus", "warnings", "machine"]
    assert [list(rank) for rank in document["ranks"]] == [
        ["rank", "numaNode", "computeCpus", "commCpus", "env"]
    ] * 2
    assert [(rank["rank"], rank["numaNode"]) for rank in document["ranks"]] == [(0, 0), (1, 1)]
    assert [rank["computeCpus"] for rank in document["ranks"]] == [list(range(1, 8)), list(range(9, 16))]
    assert [rank["commCpus"] for rank in document["ranks"]] == [[23], [31]]
    assert document["unusedCpus"] == [*range(17, 23), *range(25, 31)]
    assert document["ranks"][1]["env"].items() >= {
        "OMP_NUM_THREADS": "7", "CCL_WORKER_AFFINITY": "23,31", "CCL_LOCAL_RANK": "1"
    }.items()  # fmt: skip
    assert document["warnings"] == []
    assert [cpu["number"] for cpu in document["machine"]["cpus"]] == sorted(PART)
    assert [cpu["number"] for cpu in document["machine"]["others"]] == [0, 8, 16, 24]


@pytest.mark.parametrize(
    ("options", "compute"),
    [
        pytest.param(["--cpus", "0-3"], [[0, 1, 2, 3]], id="cpus"),
        pytest.param(["--ranks", "1"], [[*range(16)]], id="one-rank"),
        pytest.param(["--ranks", "AUTO"], [[*range(8)], [*range(8, 16)]], id="auto"),
        pytest.param(["--cpus", "0-3", "--ranks", "2"], [[0, 1], [2, 3]], id="both"),
    ],
)
def test_options(tmp_path: Path, options: list[str], compute: list[list[int]]) -> None:
    document = answer("--sysfs", record(tmp_path), *options)
    assert [rank["computeCpus"] for rank in document["ranks"]] == compute


@pytest.mark.parametrize(
    ("edits", "base", "options", "compute"),
    [
        pytest.param({"spec.resources.cpu": 4}, COMMAND, [], [[0, 1]], id="whole-cores-first"),
        pytest.param(
            {"spec.resources.cpu": 32}, COMMAND, [], [[*range(8)], [*range(8, 16)]], id="all-of-the-machine"
        ),
        pytest.param(
            {"spec.resources.cpu": 32, "spec.ranksPerWorker": 4},
            COMMAND,
            [],
            [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]],
            id="ranks-of-the-job",
        ),
        pytest.param(
            {"spec.resources.cpu": 32, "spec.ranksPerWorker": 4},
            COMMAND,
            ["--ranks", "1"],
            [[*range(16)]],
            id="ranks-of-the-option",
        ),
        pytest.param(
            {
                "spec.resources.cpu": 32,
                "spec.workers": 3,
                "spec.training.hyperparameters": {"batchSize": 9},
            },
            TRAINING,
            [],
            [[*range(16)]],
            id="auto-divides-the-batch",
        ),
        pytest.param(
            {"spec.resources.cpu": 4}, COMMAND, ["--cpus", "8,9,24,25"], [[8, 9]], id="cpus-of-the-option"
        ),
        pytest.param(
            {"spec.resources.cpu": 4, "spec.pinning": "Disabled"},
            COMMAND,
            [],
            [[*range(32)]],
            id="not-pinned",
        ),
        pytest.param(
            {"spec.resources.cpu": 4}, COMMAND, ["--cpus", "0-31"], [[*range(32)]], id="a-shared-pool"
        ),
    ],
)
def test_a_job(
    tmp_path: Path, edits: dict[str, Any], base: dict[str, Any], options: list[str], compute: list[list[int]]
) -> None:
    """Limit, ranks, pinning and batch are the job's; options win."""
    file = job_file(tmp_path, edits, base=base)
    document = answer(file, "--sysfs", record(tmp_path), *options)
    assert [rank["computeCpus"] for rank in document["ranks"]] == compute


def test_what_the_job_sets_wins_and_is_told(tmp_path: Path) -> None:
    """The file and the field are named; what only a cluster knows is said to be left out."""
    env = [
        {"name": "LD_PRELOAD", "value": "/opt/none.so"},
        {"name": "CCL_WORKER_AFFINITY", "value": "99"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    ccl = {"ccl": {"workersPerRank": 2}}
    asked = {"spec.workers": 2, "spec.resources.cpu": 8, "spec.env": env, "spec.distributed": ccl}
    file = job_file(tmp_path, asked)
    result = explain(file, "--sysfs", record(tmp_path))
    assert result.exit_code == 0, result.output
    for text in (
        f"{file}: LD_PRELOAD names /opt/none.so, which is not there",
        f"{file}: CCL_WORKER_AFFINITY names CPUs that the pod does not have (99)",
        "CCL_WORKER_AFFINITY=99 is set in the environment and wins over 18,19",
        "the kubelet grants CPUs 0-3,16-19",
        "Secret s is not in the file",
        "all 2 workers get such CPUs",
    ):
        assert text in result.stdout
    assert re.search(r"CCL_WORKER_COUNT +all +2", result.stdout)


def test_a_machine_smaller_than_the_job_asks_for(tmp_path: Path) -> None:
    file = job_file(tmp_path, {"spec.resources.cpu": 64})
    result = explain(file, "--sysfs", record(tmp_path))
    assert "the job asks for 64 CPUs and there are 32: planned for these" in result.stdout


def test_assumptions_do_not_stand_in_the_json(tmp_path: Path) -> None:
    file = job_file(tmp_path, {"spec.resources.cpu": 4})
    result = explain(file, "--json", "--sysfs", record(tmp_path))
    json.loads(result.stdout)
    assert "assumed: the kubelet grants CPUs 0-1,16-17" in result.stderr


def test_this_machine() -> None:
    """Neither a file nor a recording: what runs here."""
    document = answer()
    assert document["ranks"]
    assert explain().exit_code == 0


def test_the_text_marks_each_cpu_without_colours(tmp_path: Path) -> None:
    """In a pipe the marks alone say it all: each CPU of the machine once."""
    text = explain("--sysfs", record(tmp_path, granted=PART)).stdout
    marks = dict(re.findall(r"(?<=[ │])(\d+) +(r\d+|c\d+|-|x)(?= )", text))
    assert len(marks) == 32
    assert {cpu: marks[cpu] for cpu in ("0", "1", "9", "17", "23", "31")} == {
        "0": "x", "1": "r0", "9": "r1", "17": "-", "23": "c0", "31": "c1"
    }  # fmt: skip
    for line in ("Socket 0", "NUMA node 1", "2 ranks of 7 cores and 1 CPU for communication"):
        assert line in text


def rectangles(path: Path) -> list[ET.Element]:
    """The cells of the CPUs: their size is theirs alone."""
    return [one for one in ET.parse(path).iter(f"{SVG}rect") if one.get("width") == "34"]


def test_svg(tmp_path: Path) -> None:
    """It parses, stands on white, and has a cell for each CPU in the colour of its rank and role."""
    file = tmp_path / "plan.svg"
    result = explain("--sysfs", record(tmp_path, granted=PART), "--svg", file)
    assert result.stdout.endswith(f"Picture: {file}\n")
    root = ET.parse(file).getroot()
    width, height = root.get("width"), root.get("height")
    assert any((r.get("width"), r.get("height"), r.get("fill")) == (width, height, "#ffffff")
               for r in root.iter(f"{SVG}rect"))  # fmt: skip
    fills = [cell.get("fill") for cell in rectangles(file)]
    assert {fill: fills.count(fill) for fill in fills} == {
        "#4e79a7": 7, "#f28e2b": 7, "url(#comm-0)": 1, "url(#comm-1)": 1, "#ffffff": 12, "#eceff1": 4
    }  # fmt: skip
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert sorted(int(text) for text in texts if text and text.isdigit()) == list(range(32))
    assert {"Socket 1", "NUMA node 1", "striped: communicates", "not granted"} <= set(texts)
    for one in root.iter(f"{SVG}rect"):
        assert float(one.get("x", 0)) + float(one.get("width", 0)) <= float(width or 0)
        assert float(one.get("y", 0)) + float(one.get("height", 0)) <= float(height or 0)


def test_svg_of_ranks_that_are_not_pinned(tmp_path: Path) -> None:
    """No CPU is any one rank's."""
    file = tmp_path / "plan.svg"
    job = job_file(tmp_path, {"spec.resources.cpu": 4, "spec.pinning": "Disabled"})
    explain(job, "--sysfs", record(tmp_path), "--svg", file)
    assert {cell.get("fill") for cell in rectangles(file)} == {"#dbe4f0"}


ONE_CORE = ["--cpus", "3,19", "--ranks", "4"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            ["--cpus", "0-3,x"], "--cpus: 'x' is not part of a CPU list such as 0-3,8", id="no-list"
        ),
        pytest.param(["--cpus", ""], "--cpus is empty; write a list such as 0-3,8", id="empty-list"),
        pytest.param(
            ["--cpus", "30-33"], "--cpus names 32-33, but the machine's CPUs are 0-31", id="outside"
        ),
        pytest.param(["--cpus", "-1"], "--cpus: '-1' is not part of a CPU list such as 0-3,8", id="negative"),
        pytest.param(["--ranks", "0"], "--ranks is 0; write auto or a number from 1 to 64", id="no-ranks"),
        pytest.param(
            ["--ranks", "two"], "--ranks is two; write auto or a number from 1 to 64", id="no-number"
        ),
        pytest.param(
            ["--ranks", "17"],
            "--ranks is 17, but the CPUs that may be used are 16 physical cores: each rank needs one; "
            "write at most 16",
            id="more-ranks-than-cores",
        ),
        pytest.param(
            ONE_CORE,
            "--ranks is 4, but the CPUs that may be used are 1 physical core: each rank needs one; "
            "write at most 1",
            id="four-ranks-on-one-core",
        ),
        pytest.param(
            ["--svg", "/proc/none/x.svg"], "/proc/none/x.svg: cannot be written", id="no-such-folder"
        ),
        pytest.param(["none.yaml"], "none.yaml: no such file", id="no-such-file"),
    ],
)
def test_bad_options_get_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    result = explain("--sysfs", record(tmp_path), *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1


def test_ranks_of_a_job_that_do_not_fit(tmp_path: Path) -> None:
    file = job_file(tmp_path, {"spec.resources.cpu": 2, "spec.ranksPerWorker": 4})
    result = explain(file, "--sysfs", record(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.startswith("ranksPerWorker is 4, but the pod's CPUs are 1 physical core:")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(None, "{path}: no such file or folder", id="missing"),
        pytest.param(b"hello", "{path} is no tar that can be read", id="no-tar"),
        pytest.param(
            "folder", "{path} names no CPU: it needs sys/devices/system/cpu or proc/stat", id="folder"
        ),
        pytest.param("packed", "{path} holds no sys/devices/system/cpu and no proc/stat", id="tar-of-others"),
    ],
)
def test_bad_recordings_get_one_sentence(tmp_path: Path, content: bytes | str | None, sentence: str) -> None:
    path = tmp_path / "recorded"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        write(path, {"etc/passwd": "root"})
    path = pack(path) if content == "packed" else path
    result = explain("--sysfs", path)
    assert result.exit_code == 1
    assert result.stderr.startswith(sentence.format(path=path))
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("documents", "sentence"),
    [
        pytest.param([{"apiVersion": "v1", "kind": "ConfigMap"}], "no XeonTrainJob in it", id="no-job"),
        pytest.param(
            [edited(COMMAND, {"spec.workers": 0})], "spec.workers: is 0", id="a-job-that-is-refused"
        ),
        pytest.param(
            [COMMAND, edited(COMMAND, {"metadata.name": "b"})], "2 jobs; choose one with --job", id="two"
        ),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, documents: list[Any], sentence: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    result = explain(path, "--sysfs", record(tmp_path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"{path}: ")
    assert sentence in result.stderr


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(build(sockets=4, nodes=2, cores=3), id="several-nodes-a-socket"),
        pytest.param(build(cores=1), id="one-cpu"),
        pytest.param(build(sockets=2, cores=64, threads=2), id="many-cores"),
    ],
)
def test_any_shape_has_its_pictures(tmp_path: Path, machine: Machine) -> None:
    """Each online CPU is in the picture exactly once."""
    write(tmp_path / "machine", tree_of(machine, machine))
    file = tmp_path / "plan.svg"
    assert explain("--sysfs", tmp_path / "machine", "--svg", file).exit_code == 0
    assert len(rectangles(file)) == len(machine.online)


def odd_machine(folder: Path) -> Path:
    """Recorded by somebody who wishes no good."""
    path = record(folder)
    odd = "".join(f"processor: {n}\nmodel name: \x1b]0;x\x07 [bold]\u6f22 <&>\n\n" for n in range(32))
    write(path, {"proc/cpuinfo": odd})
    return path


def test_what_others_wrote_steers_neither_terminal_nor_drawing(tmp_path: Path) -> None:
    """Neither the recording nor the job's own values."""
    odd = [{"name": "OMP_NUM_THREADS", "value": "1\x1b[2J[red]"}]
    svg = tmp_path / "plan.svg"
    result = explain(job_file(tmp_path, {"spec.env": odd}), "--sysfs", odd_machine(tmp_path), "--svg", svg)
    assert result.exit_code == 0, result.output
    assert not set(result.output) & {"\x1b", "\x07"}
    assert "[bold]\u6f22 <&>" in result.stdout
    assert "[red]" in result.stdout
    ET.parse(svg)


def test_a_locale_of_ascii_alone_is_enough(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "xeontrain_operator", "explain", "--sysfs", odd_machine(tmp_path)],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "40", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (child.returncode, child.stderr) == (0, "")
    assert "\\u6f22" in child.stdout


@needs_recordings
@pytest.mark.parametrize(
    "name", sorted(path.name for path in FOLDER.glob("*.tar.*")), ids=lambda n: n.split(".")[0]
)
def test_recorded_machines(tmp_path: Path, name: str) -> None:
    """With all their links: each online CPU has its cell, and each granted one its use."""
    file = tmp_path / "plan.svg"
    document = answer("--sysfs", FOLDER / name, "--svg", file)
    machine = document["machine"]
    assert len(rectangles(file)) == len(machine["online"])
    used = [cpu for rank in document["ranks"] for cpu in (*rank["computeCpus"], *rank["commCpus"])]
    granted = [cpu["number"] for cpu in machine["cpus"]]
    assert sorted([*used, *document["unusedCpus"]]) == granted
