"""Checks of columns that several tasks read, and the classes that they hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .errors import BadDataError
from .labels import Labels, find_labels

if TYPE_CHECKING:
    import datasets

    from .rows import Rows


def check_text(rows: Rows, *, field: str, column: str) -> None:
    """Raise BadDataError where the column is not one of text, or texts are missing."""
    table, where = rows.table, rows.where
    kind = str(getattr(table.features[column], "dtype", table.features[column]))
    missing = table.data.column(column).null_count
    if kind not in ("string", "large_string") and missing < len(table):
        raise BadDataError(
            field,
            cause=f"{column!r} of {where} holds {kind}, not text",
            remedy="Name a column of text, or convert it",
        )
    check_present(rows, field=field, column=column, what="text")


def check_present(rows: Rows, *, field: str, column: str, what: str) -> None:
    """Raise BadDataError where cells of the column are missing."""
    missing = rows.table.data.column(column).null_count
    if missing:
        raise BadDataError(
            field,
            cause=f"{missing} of {len(rows.table)} rows of {rows.where} have no {what} in {column!r}",
            remedy="Fill these rows or remove them",
        )


def check_label(rows: Rows, *, field: str, column: str) -> None:
    """Lists, objects and mixtures of types have no classes; what a plain value is worth, labels.py says."""
    import datasets

    kind = rows.table.features[column]
    if not isinstance(kind, datasets.Value | datasets.ClassLabel):
        raise BadDataError(
            field,
            cause=f"{column!r} of {rows.where} holds {kind}, not one label a row",
            remedy="Write all labels as strings, or all as whole numbers",
        )


def with_class_names(rows: Rows, *, column: str) -> Rows:
    """`rows` with names for class numbers, where the data brings names; else as they are.

    Of a column of lists, for the numbers in its lists.
    """
    kind = rows.table.features[column]
    classes = getattr(getattr(kind, "feature", kind), "names", None)
    if not classes:
        return rows

    def name(cell: Any) -> Any:
        if isinstance(cell, list):
            return [name(one) for one in cell]
        # A negative class number is how the Hub marks rows without a label.
        return classes[cell] if cell is not None and cell >= 0 else None

    names = [name(cell) for cell in rows.table[column]]
    table = rows.table.remove_columns(column).add_column(column, names)
    return dataclasses.replace(rows, table=table, classes=tuple(classes))


def find_classes(rows: Mapping[str, Rows], *, field: str, column: str) -> tuple[str, ...]:
    """The names of the classes of the training rows' cells, or of the elements of their lists, in order.

    Raises BadDataError where labels are unusable or new in the other rows.
    """
    train = rows["train"]
    labels = (
        Labels(train.classes)
        if train.classes
        else find_labels(_distinct(train.table, column), field=field, where=train.where)
    )
    if "eval" in rows:
        labels.check(_distinct(rows["eval"].table, column), field=field, where=rows["eval"].where)
    return labels.names


def _distinct(table: datasets.Dataset, column: str) -> Iterable[Any]:
    """The distinct values of a column; of a column of lists, those of their elements."""
    import pyarrow
    from pyarrow import compute

    values = table.data.column(column)
    while pyarrow.types.is_list(values.type) or pyarrow.types.is_large_list(values.type):
        values = compute.list_flatten(values)
    return list(compute.unique(values).to_pylist())
