"""Boxes of known size, laid out in rows and put into frames: the geometry of the SVG. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape, quoteattr

PIXELS_A_CHARACTER: Final = 0.56
"""Width of an average character, in font sizes; a little more than the usual sans-serif fonts need."""


@dataclass(frozen=True)
class Box:
    """Something `width` x `height` pixels large; `draw(x, y)` gives its elements, upper left corner there."""

    width: float
    height: float
    draw: Callable[[float, float], Sequence[str]]


def element(name: str, attributes: Mapping[str, object], content: str | None = None) -> str:
    """An SVG element; underscores in attribute names stand for dashes."""
    written = "".join(
        f" {key.replace('_', '-')}={quoteattr(_number_or_text(value))}" for key, value in attributes.items()
    )
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{escape(content)}</{name}>"


def _number_or_text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def rectangle(x: float, y: float, width: float, height: float, **attributes: object) -> str:
    """A rectangle."""
    sides = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    return element("rect", {**sides, **attributes})


def text_box(text: str, *, size: float, **attributes: object) -> Box:
    """A line of text."""

    def draw(x: float, y: float) -> list[str]:
        place = {"x": float(x), "y": float(y + 0.8 * size), "font_size": float(size)}
        return [element("text", {**place, **attributes}, text)]

    return Box(width=len(text) * size * PIXELS_A_CHARACTER, height=1.25 * size, draw=draw)


def row(boxes: Iterable[Box], *, gap: float) -> Box:
    """Side by side, upper edges in line."""
    return flow(boxes, max_width=float("inf"), gap=gap)


def column(boxes: Iterable[Box], *, gap: float) -> Box:
    """One below the other, left edges in line."""
    return flow(boxes, max_width=0.0, gap=gap)


def flow(boxes: Iterable[Box], *, max_width: float, gap: float) -> Box:
    """Side by side as far as they fit, then in the next row."""
    placed: list[tuple[float, float, Box]] = []
    x = y = row_height = width = 0.0
    for box in boxes:
        if x and x + box.width > max_width:
            x, y, row_height = 0.0, y + row_height + gap, 0.0
        placed.append((x, y, box))
        width, row_height = max(width, x + box.width), max(row_height, box.height)
        x += box.width + gap

    def draw(left: float, top: float) -> list[str]:
        return [line for dx, dy, box in placed for line in box.draw(left + dx, top + dy)]

    return Box(width=width, height=y + row_height, draw=draw)


def framed(inner: Box, *, title: Box | None, padding: float, **attributes: object) -> Box:
    """With a frame around, and a title at its upper left."""
    content = inner if title is None else column((title, inner), gap=padding / 2)

    def draw(x: float, y: float) -> list[str]:
        frame = rectangle(x, y, content.width + 2 * padding, content.height + 2 * padding, **attributes)
        return [frame, *content.draw(x + padding, y + padding)]

    return Box(width=content.width + 2 * padding, height=content.height + 2 * padding, draw=draw)
