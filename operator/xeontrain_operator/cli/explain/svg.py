"""The picture as SVG: sockets, NUMA nodes and cores, each CPU coloured by rank and marked by role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xeontrain_operator.cli.explain.answer import Answer, Rank
from xeontrain_operator.cli.explain.boxes import Box, column, element, flow, framed, rectangle, row, text_box
from xeontrain_operator.cli.explain.picture import (
    Core,
    Group,
    Node,
    Picture,
    Role,
    Socket,
    Thread,
    colour,
    make_picture,
)

_WIDTH: Final = 1120.0
_MARGIN: Final = 20.0
_CELL: Final = (34.0, 20.0)
_INK: Final = "#1f2933"
_PALE: Final = "#7b8794"
_LEGEND_RANKS: Final = 16
# Fill, border and text of CPUs that are no single rank's.
_PLAIN: Final = {
    Role.ANY: ("#dbe4f0", "#8aa0bd", _INK),
    Role.UNUSED: ("#ffffff", "#9aa5b1", "#52606d"),
    Role.OTHER: ("#eceff1", "#dde3e8", "#9aa5b1"),
}


def draw_svg(answer: Answer, *, title: str, lines: list[str]) -> str:
    """The whole file. `lines`: what stands below the title."""
    picture = make_picture(answer)
    heading = column(
        (
            text_box(title, size=18, font_weight="bold", fill=_INK),
            *(text_box(line, size=12, fill="#52606d") for line in lines),
        ),
        gap=4,
    )
    sockets = flow((_socket(socket) for socket in picture.sockets), max_width=_WIDTH, gap=14)
    legend = _legend(answer, picture, max_width=max(sockets.width, heading.width, 560))
    page = column((heading, sockets, legend), gap=16)
    width, height = round(page.width + 2 * _MARGIN), round(page.height + 2 * _MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" '
        "font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">",
        element("title", {}, title),
        element("desc", {}, "; ".join(lines)),
        *_patterns(picture),
        rectangle(0, 0, width, height, fill="#ffffff"),
        *page.draw(_MARGIN, _MARGIN),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _patterns(picture: Picture) -> Iterator[str]:
    """Stripes in each rank's colour, for CPUs that communicate."""
    ranks = sorted({thread.rank for thread in picture.threads if thread.rank is not None})
    yield "<defs>"
    for rank in ranks:
        yield (
            f'<pattern id="comm-{rank}" width="7" height="7" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect width="7" height="7" fill="#ffffff"/>'
            f'<rect width="3" height="7" fill="{colour(rank)[0]}"/></pattern>'
        )
    yield "</defs>"


def _socket(socket: Socket) -> Box:
    columns = 16 if len(socket.nodes) == 1 else 8
    nodes = flow((_node(node, columns=columns) for node in socket.nodes), max_width=_WIDTH - 40, gap=10)
    title = text_box(socket.name, size=13, font_weight="bold", fill=_INK)
    return framed(nodes, title=title, padding=12, rx=8, fill="#f5f7fa", stroke="#9aa5b1")


def _node(node: Node, *, columns: int) -> Box:
    groups = flow((_group(group, columns=columns) for group in node.groups), max_width=_WIDTH - 80, gap=8)
    title = text_box(node.name, size=12, fill=_INK)
    return framed(groups, title=title, padding=10, rx=6, fill="#ffffff", stroke="#cbd2d9")


def _group(group: Group, *, columns: int) -> Box:
    rows = (
        row((_core(core) for core in group.cores[start : start + columns]), gap=5)
        for start in range(0, len(group.cores), columns)
    )
    cores = column(rows, gap=6)
    if not group.name:
        return cores
    title = text_box(group.name, size=10, fill=_PALE)
    return framed(cores, title=title, padding=6, rx=4, fill="none", stroke="#dde3e8")


def _core(core: Core) -> Box:
    """Sibling threads one below the other in one outline; dashed where the core is of the slower kind."""
    dashes = {"stroke_dasharray": "3 2"} if core.efficient else {}
    cells = column((_cell(thread) for thread in core.threads), gap=0)
    return framed(cells, title=None, padding=1.5, rx=3, fill="none", stroke=_PALE, **dashes)


def _cell(thread: Thread) -> Box:
    width, height = _CELL

    def draw(x: float, y: float) -> list[str]:
        fill, border, ink = _paint(thread)
        cell = rectangle(x, y, width, height, fill=fill, stroke=border, stroke_width=0.5)
        place = {"x": x + width / 2, "y": y + height / 2 + 4.0, "font_size": 11.0, "text_anchor": "middle"}
        label = element("text", {**place, "fill": ink}, str(thread.number))
        if not _is_striped(thread):
            return [cell, label]
        # A number on stripes needs a ground of its own.
        ground = 8.0 + 6.5 * len(str(thread.number))
        plate = rectangle(x + (width - ground) / 2, y + 3, ground, height - 6, rx=3, fill="#ffffff")
        return [cell, plate, label]

    return Box(width=width, height=height, draw=draw)


def _is_striped(thread: Thread) -> bool:
    return thread.role is Role.COMM


def _paint(thread: Thread) -> tuple[str, str, str]:
    """(fill, border, text)."""
    if thread.rank is None:
        return _PLAIN[thread.role]
    background, ink = colour(thread.rank)
    return (
        (f"url(#comm-{thread.rank})", background, _INK)
        if _is_striped(thread)
        else (background, background, ink)
    )


def _legend(answer: Answer, picture: Picture, *, max_width: float) -> Box:
    """Ranks in columns, then what the marks mean."""
    ranks = [
        _entry(Thread(0, Role.COMPUTE, rank.rank), _words(rank))
        for rank in answer.ranks[:_LEGEND_RANKS]
        if answer.bound
    ]
    widest = max((entry.width for entry in ranks), default=0.0)
    even = (Box(widest, entry.height, entry.draw) for entry in ranks)
    parts = [flow(even, max_width=max_width, gap=8)] if ranks else []
    marks = flow(_marks(answer, picture), max_width=max_width, gap=14)
    return column((*parts, marks), gap=10)


def _marks(answer: Answer, picture: Picture) -> Iterator[Box]:
    if answer.bound and picture.ranks > _LEGEND_RANKS:
        yield text_box(f"and {picture.ranks - _LEGEND_RANKS} ranks more", size=12, fill=_INK)
    if Role.COMM in picture.roles:
        yield _entry(Thread(0, Role.COMM, 0), "striped: communicates")
    for role in (Role.ANY, Role.UNUSED, Role.OTHER):
        if role in picture.roles:
            yield _entry(Thread(0, role), role.value)


def _entry(thread: Thread, words: str) -> Box:
    fill, border, _ = _paint(thread)

    def swatch(x: float, y: float) -> list[str]:
        return [rectangle(x, y, 22, 14, fill=fill, stroke=border)]

    return row((Box(22, 15, swatch), text_box(words, size=12, fill=_INK)), gap=6)


def _words(rank: Rank) -> str:
    cores = f"{len(rank.compute)} core{'s' * (len(rank.compute) != 1)}"
    comm = f" and {len(rank.comm)} CPU{'s' * (len(rank.comm) != 1)} for communication" if rank.comm else ""
    node = f", NUMA node {rank.node}" if rank.node is not None else ", several NUMA nodes"
    return f"rank {rank.rank}: {cores}{comm}{node}"
