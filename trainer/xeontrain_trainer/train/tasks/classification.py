"""Tasks in which a row is a sample with one class: what they share, which is all but the model's input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..labels import Labels, label_name
from .task import COLUMNS, Task

if TYPE_CHECKING:
    import datasets
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ..rows import Rows

LABEL = f"{COLUMNS}.label"


class Classification(Task):
    """Rows with a `label`; a row is a sample and an item."""

    def labels(self, rows: Mapping[str, Rows]) -> tuple[str, ...]:
        """The classes of the training rows."""
        from ..checks import find_classes

        return find_classes(rows, field=LABEL, column=self.names.label)

    def class_numbers(self, labels: Sequence[str]) -> Callable[[Sequence[Any]], list[int]]:
        """The function from cells of the label column to class numbers."""
        numbers = Labels(tuple(labels)).numbers()
        return lambda cells: [numbers[label_name(cell, field=LABEL, where="a row")] for cell in cells]

    def summed_loss(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Cross-entropy."""
        from torch.nn import functional

        return functional.cross_entropy(outputs.logits.float(), batch["labels"], reduction="sum")

    @property
    def prediction_width(self) -> int:
        """The class."""
        return 1

    def predictions(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The most likely class of each sample."""
        return outputs.logits.argmax(dim=-1, keepdim=True)

    def metrics(
        self,
        predictions: NDArray[np.float32],
        *,
        loss: float,
        samples: datasets.Dataset,
        rows: datasets.Dataset | None,
        labels: Sequence[str],
    ) -> dict[str, float]:
        """`accuracy` and macro `f1`."""
        from ..scores import class_scores

        return class_scores(samples.with_format("numpy")["labels"][:], predictions[:, 0].astype(int))
