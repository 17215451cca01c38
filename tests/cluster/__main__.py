"""The test cluster for people: `python -m tests.cluster COMMAND`.

prepare   build the programs and images that are missing
up        start the cluster, print how to reach it, keep it until Ctrl-C
exec      run a program inside the running cluster's network: `exec -- kubectl get nodes`
demo      start a cluster, install the chart, train the mail filter, show its table as it changes
clean     remove built images and the logs of earlier runs from the cache (programs stay)
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

from tests.cluster import demo, settings
from tests.cluster.cluster import DEFAULT_IMAGES, Cluster, prepare
from tests.cluster.control_plane import ControlPlane
from tests.cluster.errors import ClusterError
from tests.cluster.go_build import say
from tests.cluster.namespaces import enter_argv


def current_file() -> Path:
    """Returns the file that says where the cluster of `up` is."""
    return settings.cache_dir() / "run" / "current.json"


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare")
    up = commands.add_parser("up")
    up.add_argument("--control-plane", action="store_true", help="no nodes: an API server in seconds")
    inside = commands.add_parser("exec")
    inside.add_argument("argv", nargs=argparse.REMAINDER, help="-- PROGRAM ARGUMENT...")
    commands.add_parser("demo")
    commands.add_parser("clean")
    return parser.parse_args(argv)


def up(*, control_plane_only: bool) -> None:
    """Keeps a cluster until a signal comes."""
    if control_plane_only:
        with ControlPlane.running() as control_plane:
            _announce_and_wait(control_plane)
    else:
        with Cluster.running() as cluster:
            _announce_and_wait(cluster.control_plane)


def _announce_and_wait(control_plane: ControlPlane) -> None:
    place = {
        "pid": control_plane.namespaces.pid,
        "kubeconfig": str(control_plane.kubeconfig_inside),
        "path": control_plane.binaries.search_path(),
    }
    current_file().write_text(json.dumps(place))
    say("ready; Ctrl-C ends it. In another terminal:")
    print(f"export KUBECONFIG={control_plane.kubeconfig}", flush=True)
    try:
        signal.pause()
    finally:
        current_file().unlink(missing_ok=True)


def run_inside(argv: list[str]) -> None:
    """Becomes a program inside the cluster of `up`; raises ClusterError where none runs."""
    command = argv[1:] if argv[:1] == ["--"] else argv
    try:
        place = json.loads(current_file().read_text())
    except FileNotFoundError:
        raise ClusterError("no cluster is running: start one with `python -m tests.cluster up`") from None
    if not Path(f"/proc/{place['pid']}").exists():
        raise ClusterError("the cluster has ended: start one with `python -m tests.cluster up`")
    environment = {**os.environ, "KUBECONFIG": place["kubeconfig"], "PATH": place["path"]}
    full = enter_argv(place["pid"], command or [os.environ.get("SHELL", "/bin/sh")])
    os.execvpe(full[0], full, environment)


def clean() -> None:
    """Removes what can be built again, but for the programs, which take longest."""
    for name in ("images", "store", "run", "log"):
        shutil.rmtree(settings.cache_dir() / name, ignore_errors=True)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: list[str]) -> int:
    """Runs one command; 1 where the cluster cannot run, with the reason."""
    arguments = _parse(argv)
    signal.signal(signal.SIGTERM, _stop)
    try:
        match arguments.command:
            case "prepare":
                prepare(DEFAULT_IMAGES)
            case "up":
                up(control_plane_only=arguments.control_plane)
            case "exec":
                run_inside(arguments.argv)
            case "demo":
                demo.run()
            case "clean":
                clean()
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("ended")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
