"""What can go wrong in the harness, each kind with its remedy."""

from __future__ import annotations

from pathlib import Path


class ClusterError(Exception):
    """The test cluster could not be started or used; the message says why and what to do."""


class RequirementMissing(ClusterError):
    """This machine lacks something (root, Linux, Go, a system package) that a tier needs."""

    def __init__(self, what: str, *, remedy: str) -> None:
        super().__init__(f"{what}. {remedy}")
        self.what = what
        self.remedy = remedy


class ComponentFailed(ClusterError):
    """A component (etcd, kubelet, a build, ...) ended or did not become ready."""

    def __init__(self, what: str, *, log: Path | None = None, tail_lines: int = 30) -> None:
        super().__init__(f"{what}\n{log_tail(log, lines=tail_lines)}" if log else what)
        self.log = log


def log_tail(log: Path, *, lines: int) -> str:
    """Returns the last lines of a log under a heading with its path."""
    try:
        text = log.read_text(errors="replace").splitlines()[-lines:]
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join([f"--- last lines of {log}", *text, "---"])
