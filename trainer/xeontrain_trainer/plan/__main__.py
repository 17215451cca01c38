"""`python -m xeontrain_trainer.plan`: the plan of this pod, of this machine or of a recorded one, as JSON.

In a trainer pod no option is needed: the contract's variables tell the request. Exit code 78 and one sentence
on stderr where there is no plan. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from .. import contract
from ..machine import Machine, MachineError, format_cpus, open_tree, parse_cpus, read_machine
from .explain import choose_ranks, document, request_of
from .layout import PlanError
from .make import make_plan
from .surroundings import Surroundings, look_around


class UsageError(Exception):
    """An option that cannot be used; the text names it."""


def main(argv: Sequence[str]) -> int:
    """Prints the document, or a sentence; the exit code."""
    options = _options(argv)
    try:
        print(json.dumps(_document(options)))
    except (MachineError, PlanError, UsageError) as error:
        print(error, file=sys.stderr)
        return contract.EXIT_BAD_CONFIG
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m xeontrain_trainer.plan", description=__doc__)
    parser.add_argument("--sysfs", metavar="DIR|TAR", help="a recorded machine, with its /sys and /proc")
    parser.add_argument("--cpus", metavar="LIST", help="the granted CPUs, such as 0-3,8")
    parser.add_argument(
        "--grant", type=int, metavar="N", help="grant so many CPUs, whole cores and nodes first"
    )
    parser.add_argument(
        "--ranks", type=int, metavar="N", help="ranks, in place of those that the job asks for"
    )
    parser.add_argument("--ipex", action="store_true", help="the job asks for Intel's extension for PyTorch")
    parser.add_argument(
        "--environ", action="store_true", help="read the pod's environment from stdin, a JSON object"
    )
    return parser.parse_args(argv)


def _document(options: argparse.Namespace) -> dict[str, object]:
    environ = json.load(sys.stdin) if options.environ else dict(os.environ)
    tree = open_tree(options.sysfs or "/")
    machine = read_machine(tree)
    host = read_machine(tree, cpus=machine.online)
    if options.cpus is not None:
        machine = read_machine(tree, cpus=_listed(options.cpus, machine=machine))
    if options.grant is not None:
        machine = read_machine(tree, cpus=first_cpus(machine, number=options.grant))
    ranks = choose_ranks(options.ranks, machine=machine, environ=environ)
    request = request_of(environ, ranks=ranks, **_found(environ, options=options))
    return document(make_plan(machine, request), machine=machine, host=host)


def _listed(text: str, *, machine: Machine) -> Iterable[int]:
    """The CPUs of `--cpus`. Raises UsageError."""
    try:
        cpus = parse_cpus(text)
    except ValueError as error:
        raise UsageError(f"--cpus: {error}") from None
    if not cpus:
        raise UsageError("--cpus is empty; write a list such as 0-3,8")
    outside = set(cpus) - set(machine.online)
    if outside:
        raise UsageError(
            f"--cpus names {format_cpus(outside)}, but the machine's CPUs are {format_cpus(machine.online)}"
        )
    return cpus


def first_cpus(machine: Machine, *, number: int) -> Iterable[int]:
    """So many granted CPUs, whole nodes and whole cores first: what the kubelet's static policy gives on a
    machine that nobody else uses. All where there are fewer."""
    return [cpu.number for core in machine.cores for cpu in core][:number]


def _found(environ: Mapping[str, str], *, options: argparse.Namespace) -> Surroundings:
    address = environ.get(contract.ENV_POD_IP, "")
    named: Optional[str] = environ.get(contract.ENV_INTERFACE, "").strip() or None
    in_pod = bool(address) and not options.environ
    return look_around(environ, address=address, interface=named, ipex=options.ipex, in_pod=in_pod)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
