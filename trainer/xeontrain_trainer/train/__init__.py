"""The built-in trainer: `python -m xeontrain_trainer.train`, once in each rank.

A loop in plain PyTorch DDP. What it guarantees, whatever the number of ranks and accumulation steps: the
loss of a step is the sum over the global batch divided by its number of items; each epoch visits every
sample exactly once. What differs between tasks is in `tasks/`, a file each.
"""
