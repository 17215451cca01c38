"""The plan in a terminal: a table of ranks, the picture, the environment, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from xeontrain_operator.cli.explain.answer import Answer
from xeontrain_operator.cli.explain.picture import Core, Node, Picture, Role, Thread, colour, make_picture
from xeontrain_operator.cli.run.cpus import as_list


def show(answer: Answer, *, title: str, assumptions: Iterable[str], source: str, console: Console) -> None:
    """Write all of it. Colours and marks say the same, so that a pipe loses nothing. `source`: the job's
    file, named where a warning is about a field of it."""
    console.print(Text(title, style="bold"))
    for line in machine_lines(answer):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print()
    console.print(_rank_table(answer))
    picture = make_picture(answer)
    for part in _picture(picture, width=console.width):
        console.print(part)
    console.print(_legend(picture))
    console.print()
    console.print(_environment(answer))
    place = f"{source}: " if source else ""
    warnings = [f"{place}{warning}" if "spec." in warning else warning for warning in answer.warnings]
    _sentences(console, "Warnings", warnings)
    _sentences(console, "Assumed", assumptions)


def machine_lines(answer: Answer) -> list[str]:
    """The machine in words: model, instructions, caches, CPUs."""
    machine = answer.machine
    numbers = [cpu.number for cpu in answer.granted]
    quota = machine["quotaCpus"]
    limits = f", with a quota of {quota:g} CPUs" if quota is not None else ""
    lines = [
        f"{machine['model'] or 'Unknown CPU'} ({machine['instructionSet']})",
        f"Granted: CPUs {as_list(numbers)} ({len(numbers)} of {len(machine['online'])}){limits}",
    ]
    if machine["caches"]:
        lines.append("Caches: " + ", ".join(_cache(cache) for cache in machine["caches"]))
    return lines


def _cache(cache: dict[str, object]) -> str:
    kib, threads = int(str(cache["sizeKiB"])), cache["threads"]
    size = f"{kib // 1024} MiB" if kib >= 1024 and kib % 1024 == 0 else f"{kib} KiB"
    kind = {"Data": "d", "Instruction": "i"}.get(str(cache["kind"]), "")
    shared = f" for {threads} CPUs" if threads != 1 else ""
    return f"L{cache['level']}{kind} {size}{shared}"


def _rank_table(answer: Answer) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("Rank", "NUMA node", "Threads", "Computes on", "Communicates on"):
        table.add_column(name, overflow="fold")
    for rank in answer.ranks:
        background, text = colour(rank.rank)
        table.add_row(
            Text(f" {rank.rank} ", style=f"{text} on {background}" if answer.bound else ""),
            _node_of(answer, rank.node),
            _plain(rank.env["OMP_NUM_THREADS"]),
            as_list(rank.compute) if answer.bound else f"any of {as_list(rank.compute)}",
            as_list(rank.comm) or ("no CPU of its own" if answer.bound else "any"),
        )
    if answer.unused:
        table.add_row("", "", "", Text(f"unused: {as_list(answer.unused)}", style="dim"), "")
    return table


def _node_of(answer: Answer, node: int | None) -> str:
    if node is not None:
        return str(node)
    return "several" if answer.bound else "any"


def _picture(picture: Picture, *, width: int) -> Iterable[RenderableType]:
    cell = _cell_width(picture)
    # Borders and padding of the panel, and the indentation of a node.
    columns = max(1, (min(width, 120) - 8) // (cell + 1))
    for socket in picture.sockets:
        nodes: list[RenderableType] = []
        for node in socket.nodes:
            nodes += [Text(node.name), Padding(_node(node, cell=cell, columns=columns), (0, 0, 0, 2))]
        yield Panel(Group(*nodes), title=socket.name, title_align="left", box=box.ROUNDED, expand=False)


def _cell_width(picture: Picture) -> int:
    return max(len(_label(thread, 0)) for thread in picture.threads)


def _node(node: Node, *, cell: int, columns: int) -> Group:
    lines: list[RenderableType] = []
    for group in node.groups:
        if group.name:
            lines.append(Text(group.name, style="dim"))
        for start in range(0, len(group.cores), columns):
            lines += _rows(group.cores[start : start + columns], cell=cell)
    return Group(*lines)


def _rows(cores: tuple[Core, ...], *, cell: int) -> Iterable[Text]:
    """Sibling threads stand one below the other."""
    for level in range(max(len(core.threads) for core in cores)):
        line = Text(no_wrap=True)
        for core in cores:
            if level < len(core.threads):
                thread = core.threads[level]
                line.append(_label(thread, cell), style=_style(thread))
            else:
                line.append(" " * cell)
            line.append(" ")
        yield line


def _label(thread: Thread, width: int) -> str:
    """CPU number and mark: `12 r0` computes for rank 0, `44 c0` communicates for it."""
    rank = thread.rank
    marks = {
        Role.COMPUTE: f"r{rank}",
        Role.COMM: f"c{rank}",
        Role.ANY: "*",
        Role.UNUSED: "-",
        Role.OTHER: "x",
    }
    number = str(thread.number)
    mark = marks[thread.role]
    return f"{number:>{max(1, width - len(mark) - 1)}} {mark}"


def _style(thread: Thread) -> str:
    if thread.rank is None:
        return {Role.ANY: "reverse", Role.UNUSED: "", Role.OTHER: "dim"}[thread.role]
    background, text = colour(thread.rank)
    return f"{text} on {background}" if thread.role is Role.COMPUTE else f"bold {background} underline"


def _legend(picture: Picture) -> Text:
    words = {
        Role.COMPUTE: "rN computes for rank N",
        Role.COMM: "cN communicates for it",
        Role.ANY: "* any rank, not pinned",
        Role.UNUSED: "- granted, unused",
        Role.OTHER: "x not granted",
    }
    return Text(", ".join(text for role, text in words.items() if role in picture.roles), style="dim")


def _environment(answer: Answer) -> Table:
    """Each variable once where all ranks have the same value."""
    table = Table(title="Environment of the ranks", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("Variable", "Rank", "Value"):
        table.add_column(name, overflow="fold")
    ranks = answer.ranks
    for name in sorted({name for rank in ranks for name in rank.env}):
        values = {rank.rank: rank.env.get(name, "") for rank in ranks}
        if len(set(values.values())) == 1:
            table.add_row(name, "all", _plain(values[ranks[0].rank]))
            continue
        for rank, value in values.items():
            table.add_row(name, str(rank), _plain(value))
    return table


def _sentences(console: Console, heading: str, sentences: Iterable[str]) -> None:
    lines = list(sentences)
    if lines:
        console.print(Text(f"{heading}:", style="bold"))
    for line in lines:
        console.print(Text("  ").append_text(_plain(line)), soft_wrap=True)


def _plain(text: str) -> Text:
    """Values of a file that somebody else wrote: never markup, and nothing that steers the terminal."""
    return Text("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))
