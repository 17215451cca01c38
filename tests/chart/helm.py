"""helm as the tests call it: render, lint, install; values are given as a mapping."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "xeontrain"
NAMESPACE = "xeontrain-system"

Object = dict[str, Any]
Values = Mapping[str, Any]


class HelmFailed(AssertionError):
    """helm ended with an error; the message is its own."""


@dataclass(frozen=True)
class Helm:
    """A helm program; `kubeconfig` for those commands that need a cluster."""

    program: str
    kubeconfig: Path | None = None

    def run(self, *arguments: str, values: Values | None = None, timeout_seconds: int = 120) -> str:
        """Output of one command, with `values` passed as a file. Raises HelmFailed with helm's words."""
        command = [self.program, *arguments, *(("--values", "-") if values is not None else ())]
        done = subprocess.run(
            command,
            input=yaml.safe_dump(values) if values is not None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **self._kubeconfig_env()},
        )
        if done.returncode:
            raise HelmFailed(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def _kubeconfig_env(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self.kubeconfig)} if self.kubeconfig else {}

    def template(
        self,
        values: Values | None = None,
        *,
        release: str = "xeontrain",
        namespace: str = NAMESPACE,
        hooks: bool = True,
    ) -> list[Object]:
        """The objects of a release, as they would be applied. Kept for equal arguments: only to be read."""
        arguments = ("template", release, str(CHART), "--namespace", namespace)
        return _rendered(
            self, (*arguments, *(() if hooks else ("--no-hooks",))), values_text=yaml.safe_dump(values or {})
        )


@functools.cache
def _rendered(helm: Helm, arguments: tuple[str, ...], *, values_text: str) -> list[Object]:
    text = helm.run(*arguments, values=yaml.safe_load(values_text))
    return [item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item]


def one(objects: list[Object], kind: str, *, suffix: str = "") -> Object:
    """The only object of a kind whose name ends so."""
    found = [item for item in objects if item["kind"] == kind and item["metadata"]["name"].endswith(suffix)]
    assert len(found) == 1, f"{len(found)} objects of kind {kind} end with {suffix!r}"
    return found[0]
