"""How far a training is: enough to go on with the next batch. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Position:
    """After how many optimizer steps, and where in the data.

    `epoch` and `batch` (batches done of it) say which global batch comes next; `samples` and `seconds` (spent
    in steps) are of the whole run; `loss_sum` and `items` are of the epoch so far.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    samples: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    items: int = 0

    def after(self, *, rows: int, items: int, loss: float, seconds: float) -> Position:
        """One step later: it trained on `rows` samples with `items` items, whose mean loss was `loss`."""
        return replace(
            self,
            step=self.step + 1,
            batch=self.batch + 1,
            samples=self.samples + rows,
            seconds=self.seconds + seconds,
            loss_sum=self.loss_sum + loss * items,
            items=self.items + items,
        )

    def next_epoch(self) -> Position:
        """At the beginning of the next epoch."""
        return replace(self, epoch=self.epoch + 1, batch=0, loss_sum=0.0, items=0)
