"""Builds images with buildah, in a store and in a mount namespace of its own.

Results are pushed to one OCI layout (a folder), where images share the blobs of their layers. A name there
carries a hash of all that the image was made of, so it is built once and never out of date.
"""

from __future__ import annotations

import fcntl
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import host_config
from tests.cluster.errors import ComponentFailed
from tests.cluster.go_build import PROGRESS_SECONDS, say

REFERENCE_NAME = "org.opencontainers.image.ref.name"


@dataclass(frozen=True)
class Build:
    """One `buildah build`: `name` with its hash, the Dockerfile, its context and arguments."""

    name: str
    dockerfile: Path
    context: Path
    arguments: Mapping[str, str]
    ignore_file: Path | None = None


class Buildah:
    """A store of images under a folder of the cache, locked against other runs."""

    def __init__(self, folder: Path, *, logs: Path) -> None:
        self._folder = folder
        self._logs = logs
        self.layout = folder / "layout"
        for one in (folder, logs, self.layout):
            one.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self, what: str) -> Iterator[None]:
        """Holds one image, or the layout; another run that has it is waited for."""
        with (self._folder / f".lock-{what}").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"another run builds {what}; waiting for it")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def has(self, name: str) -> bool:
        """True where the store has an image of this name."""
        done = subprocess.run(
            self._argv(Path("/nonexistent"), "images", "--quiet", name), capture_output=True, check=False
        )
        return done.returncode == 0

    def build(self, build: Build) -> None:
        """Builds an image; raises ComponentFailed with the end of the log."""
        with tempfile.TemporaryDirectory(prefix="xt-build-") as scratch:
            mounts = host_config.mounts(Path(scratch))
            ignore = [f"--ignorefile={build.ignore_file}"] if build.ignore_file else []
            arguments = [f"--build-arg={name}={value}" for name, value in build.arguments.items()]
            argv = self._argv(
                Path(scratch) / "run",
                *("build", "--layers", "--format=docker", "--isolation=oci", "--network=host"),
                # crun refuses hybrid cgroups.
                "--runtime=runc",
                # Equal inputs make equal images, whenever they are built.
                "--timestamp=0",
                *(*mounts, *ignore, *arguments, f"--file={build.dockerfile}", f"--tag={build.name}"),
                str(build.context),
            )
            self._run(argv, what=f"image {build.name}")

    def push(self, name: str) -> None:
        """Copies an image into the OCI layout; layers that are there already are not read again.

        `buildah push` would compress every layer, most of the time of a copy and of an import; a commit of an
        untouched container does not.
        """
        with tempfile.TemporaryDirectory(prefix="xt-push-") as scratch:
            run = Path(scratch) / "run"
            created = self._output(self._argv(run, "from", "--pull-never", name))
            target = f"oci:{self.layout}:{name}"
            options = ["--disable-compression", "--omit-timestamp", "--format=oci", "--rm"]
            # The layout's index is one file that every copy writes anew.
            with self.locked("layout"):
                self._run(self._argv(run, "commit", *options, created, target), what=f"copy of {name}")

    def run(self, name: str, *argv: str, source: Path) -> str:
        """Runs a command in a container of an image, without a network; returns what it printed.

        `source` is mounted at /src, read-only. Raises ComponentFailed where the command fails.
        """
        with tempfile.TemporaryDirectory(prefix="xt-run-") as scratch:
            run = Path(scratch) / "run"
            container = self._output(self._argv(run, "from", "--pull-never", name))
            options = ["--isolation=oci", "--runtime=runc", "--network=none", f"--volume={source}:/src:ro"]
            try:
                return self._output(self._argv(run, "run", *options, container, "--", *argv))
            finally:
                self._output(self._argv(run, "rm", container))

    def pushed(self) -> dict[str, str]:
        """Returns the manifests' digests in the OCI layout by image name."""
        index = self.layout / "index.json"
        if not index.exists():
            return {}
        manifests = json.loads(index.read_text())["manifests"]
        named = [one for one in manifests if REFERENCE_NAME in one.get("annotations", {})]
        return {one["annotations"][REFERENCE_NAME]: one["digest"] for one in named}

    def _argv(self, runroot: Path, *arguments: str) -> list[str]:
        # The mounts of a build that is killed go with the namespace.
        return [
            *("unshare", "--mount", "--", "buildah"),
            *("--root", str(self._folder / "storage"), "--runroot", str(runroot)),
            *arguments,
        ]

    def _output(self, argv: Sequence[str]) -> str:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ComponentFailed(f"`{' '.join(argv[-3:])}` failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def _run(self, argv: Sequence[str], *, what: str) -> None:
        log = self._logs / f"{what.replace('/', '-').replace(':', '-').replace(' ', '-')}.log"
        started = time.monotonic()
        say(what)
        with log.open("w") as out, subprocess.Popen(argv, stdout=out, stderr=out) as process:
            while True:
                try:
                    code = process.wait(timeout=PROGRESS_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    say(f"{what}: {time.monotonic() - started:.0f} s")
        if code != 0:
            raise ComponentFailed(f"{what} failed (exit code {code})", log=log)
        say(f"{what}: done in {time.monotonic() - started:.0f} s")
