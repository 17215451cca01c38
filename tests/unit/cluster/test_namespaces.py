"""The namespaces own all that runs in them and leave the host as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import settings
from tests.cluster.errors import RequirementMissing
from tests.cluster.namespaces import Namespaces, require_namespaces
from tests.cluster.relay import Relay

pytestmark = pytest.mark.cluster


@pytest.fixture
def namespaces() -> Iterator[Namespaces]:
    """Fresh namespaces with one more address."""
    try:
        require_namespaces()
    except RequirementMissing as error:
        if settings.must_run_all():
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    started = Namespaces.start(addresses=["10.250.0.1"])
    yield started
    started.stop()


def wait_until_gone(pid: int) -> None:
    """Returns once a process does not exist any more; the test's own timeout is the limit."""
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.05)


def host_state() -> tuple[list[str], list[str]]:
    """Returns the host's network interfaces and mount points."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return sorted(os.listdir("/sys/class/net")), sorted(line.split()[4] for line in mounts)


def test_the_host_keeps_its_interfaces_and_mounts(namespaces: Namespaces) -> None:
    before = host_state()
    namespaces.run(["ip", "link", "add", "xt-a", "type", "veth", "peer", "name", "xt-b"])
    namespaces.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"])
    assert "xt-a" in namespaces.run(["ip", "link"]).stdout
    assert host_state() == before


def test_output_exit_code_and_signals_are_the_programs(namespaces: Namespaces) -> None:
    assert namespaces.run(["cat"], input="hello").stdout == "hello"
    assert namespaces.run(["sh", "-c", "exit 7"], check=False).returncode == 7
    trap = "trap 'exit 9' TERM; echo on; while :; do sleep 0.05; done"
    process = namespaces.popen(["sh", "-c", trap], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait() == 9


@pytest.mark.parametrize("victim", ["owner", "process 1"])
def test_nothing_outlives_a_kill(namespaces: Namespaces, victim: str) -> None:
    process = namespaces.popen(["sleep", "1000"])
    while (inner := process.inner_pid()) is None:
        time.sleep(0.02)
    owner = int(Path(f"/proc/{namespaces.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(owner if victim == "owner" else namespaces.pid, signal.SIGKILL)
    wait_until_gone(inner)
    assert process.wait() == -signal.SIGKILL


def test_the_end_of_the_harness_ends_the_namespaces(tmp_path: Path) -> None:
    """A harness that is killed takes its cluster along, without any clean-up of its own."""
    script = (
        "from tests.cluster.namespaces import Namespaces; import time\n"
        "n = Namespaces.start(); n.popen(['sleep', '1000']); print(n.pid, flush=True); time.sleep(1000)"
    )
    harness = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        harness.kill()
    wait_until_gone(pid)


def test_the_relay_reaches_a_server_inside(namespaces: Namespaces, tmp_path: Path) -> None:
    """A server on an address that only the namespace has answers on a loopback port of the host."""
    (tmp_path / "page").write_text("from inside")
    argv = [sys.executable, "-m", "http.server", "8000", "--bind", "10.250.0.1", "--directory", str(tmp_path)]
    server = namespaces.popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    probe = "import socket; socket.create_connection(('10.250.0.1', 8000))"
    while namespaces.run([sys.executable, "-c", probe], check=False).returncode:
        assert server.poll() is None
    relay = Relay(namespace_pid=namespaces.pid, address="10.250.0.1", port=8000)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{relay.port}/page", timeout=10) as answer:
            assert answer.read() == b"from inside"
    finally:
        relay.stop()
    server.terminate()
    server.wait()
