"""A script with Lightning, as it would run under torchrun."""

import json
import os

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))

    def training_step(self, batch, _index):
        inputs, targets = batch
        return nn.functional.mse_loss(self.layers(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class Report(L.Callback):
    def on_train_batch_end(self, trainer, _module, outputs, *_):
        if trainer.is_global_zero:
            total = trainer.estimated_stepping_batches
            line = {"step": trainer.global_step, "totalSteps": total, "loss": outputs["loss"].item()}
            with open(os.environ["XEONTRAIN_PROGRESS_FILE"], "a") as file:
                file.write(json.dumps(line) + "\n")


def main():
    L.seed_everything(0)
    inputs = torch.randn(512, 4)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=16)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
        strategy="ddp",
        max_epochs=2,
        callbacks=[Report()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Regression(), loader)
    print(
        f"rank {trainer.global_rank} of {trainer.world_size}: {torch.get_num_threads()} threads", flush=True
    )


main()
