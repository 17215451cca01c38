"""Builds programs from Go modules, one at a time, each put in place only when it is whole.

Kubernetes and etcd refuse `go install module@version`, because their go.mod has replace lines: they are
built as dependencies of a small module of our own, which repeats those lines as versions.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tests.cluster import settings
from tests.cluster.errors import ComponentFailed, RequirementMissing

PROGRESS_SECONDS = 20


@dataclass(frozen=True)
class GoInstall:
    """Programs that `go install package@version` builds as they are."""

    packages: Mapping[str, str] = field(hash=False)
    cgo: bool = False


@dataclass(frozen=True)
class OwnModule:
    """Programs of a module that has to be the dependency of another to be built."""

    module: str
    packages: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True)
class StagedModule:
    """Kubernetes: programs under cmd/, modules in ./staging that are published as v0.<minor>.<patch>."""

    module: str
    commands: tuple[str, ...]


Source = GoInstall | OwnModule | StagedModule


def say(text: str) -> None:
    """Prints one progress line at once, on stderr."""
    print(f"[cluster] {text}", file=sys.stderr, flush=True)


def build_missing(source: Source, *, version: str, programs: Sequence[str], folder: Path) -> None:
    """Builds the programs into the folder; another run that builds at this moment is waited for."""
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder.parent / ".lock"):
        left = [program for program in programs if not (folder / program).exists()]
        if not left:
            return
        _require_go()
        # On the same file system as the result, so that the last step is a rename.
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder.parent) as scratch:
            builder = _Builder(source, version=version, scratch=Path(scratch))
            for program in left:
                builder.build(program).rename(folder / program)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run is building; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _require_go() -> None:
    if shutil.which("go") is None:
        raise RequirementMissing(
            "the cluster's programs are not on this machine and there is no Go to build them",
            remedy="Install Go (1.26 or later), or set KUBEBUILDER_ASSETS to a folder that has them",
        )


class _Builder:
    """Builds programs of one source in a scratch folder, with a log a program."""

    def __init__(self, source: Source, *, version: str, scratch: Path) -> None:
        self._source = source
        self._version = version
        self._scratch = scratch
        self._logs = settings.cache_dir() / "log"
        self._logs.mkdir(parents=True, exist_ok=True)
        self._prepared = False

    def build(self, program: str) -> Path:
        """Returns the path of the built program in the scratch folder."""
        out = self._scratch / "out"
        out.mkdir(exist_ok=True)
        self._prepare()
        argv = self._argv(program, out=out)
        self._go(argv, what=f"{program} v{self._version}", env={"GOBIN": str(out)})
        return out / program

    def _argv(self, program: str, *, out: Path) -> list[str]:
        source = self._source
        if isinstance(source, GoInstall):
            return ["install", "-trimpath", "-ldflags=-s -w", f"{source.packages[program]}@v{self._version}"]
        package = source.packages[program] if isinstance(source, OwnModule) else self._command(program)
        flags = self._version_flags() if isinstance(source, StagedModule) else "-s -w"
        return ["build", "-trimpath", "-ldflags", flags, "-o", str(out / program), package]

    def _command(self, program: str) -> str:
        assert isinstance(self._source, StagedModule)
        return f"{self._source.module}/cmd/{program}"

    def _version_flags(self) -> str:
        # Without these a Kubernetes program tells v0.0.0 and refuses version skew checks.
        major, minor, _ = self._version.split(".")
        set_value = {
            "k8s.io/component-base/version.gitVersion": f"v{self._version}",
            "k8s.io/component-base/version.gitMajor": major,
            "k8s.io/component-base/version.gitMinor": minor,
            "k8s.io/client-go/pkg/version.gitVersion": f"v{self._version}",
        }
        return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in set_value.items())])

    def _prepare(self) -> None:
        """Writes our own module once, where the source needs one."""
        if self._prepared or isinstance(self._source, GoInstall):
            return
        self._prepared = True
        downloaded = self._download(self._source.module)
        packages = (
            list(self._source.packages.values())
            if isinstance(self._source, OwnModule)
            else [self._command(name) for name in self._source.commands]
        )
        module = own_module(
            (downloaded / "go.mod").read_text(), module=self._source.module, version=self._version
        )
        (self._scratch / "go.mod").write_text(module)
        imports = "\n".join(f'import _ "{package}"' for package in packages)
        (self._scratch / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\n{imports}\n")
        self._go(["mod", "tidy"], what=f"the module list of {self._source.module} v{self._version}")

    def _download(self, module: str) -> Path:
        argv = ["go", "mod", "download", "-json", f"{module}@v{self._version}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=self._scratch)
        answer = json.loads(done.stdout or "{}")
        if done.returncode or "Dir" not in answer:
            why = answer.get("Error") or done.stderr.strip()
            raise ComponentFailed(f"module {module} v{self._version} could not be downloaded: {why}")
        return Path(answer["Dir"])

    def _go(self, argv: list[str], *, what: str, env: Mapping[str, str] | None = None) -> None:
        log = self._logs / f"build-{re.sub(r'[^a-z0-9.-]+', '-', what.lower())}.log"
        cgo = isinstance(self._source, GoInstall) and self._source.cgo
        full = {**os.environ, "CGO_ENABLED": "1" if cgo else "0", "GOWORK": "off", **(env or {})}
        with log.open("w") as out:
            code, seconds = _run_with_progress(["go", *argv], what=what, env=full, cwd=self._scratch, out=out)
        if code != 0:
            raise ComponentFailed(f"building {what} failed (exit code {code})", log=log)
        say(f"built {what} in {seconds:.0f} s")


def own_module(go_mod: str, *, module: str, version: str) -> str:
    """Returns the go.mod of a module that depends on the given one.

    Its Go version is the dependency's own; each `k8s.io/X => ./staging/...` of the dependency becomes the
    release of k8s.io/X that belongs to it (v1.37.2 -> v0.37.2).
    """
    go_line = re.search(r"^go (\S+)$", go_mod, re.MULTILINE)
    lines = [
        "module tools",
        f"go {go_line.group(1) if go_line else '1.24'}",
        f"require {module} v{version}",
    ]
    staged = re.findall(r"^\s*(?:replace )?(k8s\.io/\S+) => \./staging", go_mod, re.MULTILINE)
    lines += [f"replace {name} => {name} v0.{version.split('.', 1)[1]}" for name in staged]
    return "\n".join(lines) + "\n"


def _run_with_progress(
    argv: list[str], *, what: str, env: Mapping[str, str], cwd: Path, out: TextIO
) -> tuple[int, float]:
    started = time.monotonic()
    say(f"building {what}")
    with subprocess.Popen(argv, env=dict(env), cwd=cwd, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            while True:
                try:
                    return process.wait(timeout=PROGRESS_SECONDS), time.monotonic() - started
                except subprocess.TimeoutExpired:
                    say(f"still building {what} ({time.monotonic() - started:.0f} s)")
        finally:
            process.kill()
