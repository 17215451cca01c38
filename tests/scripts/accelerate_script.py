"""A script with accelerate, as it would run under `accelerate launch` or torchrun."""

import json
import os

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator()
    torch.manual_seed(0)
    inputs = torch.randn(512, 4)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    rank, world = accelerator.process_index, accelerator.num_processes
    print(f"rank {rank} of {world}: {torch.get_num_threads()} threads")
    step, epochs = 0, 2
    for _ in range(epochs):
        for batch, targets in loader:
            loss = nn.functional.mse_loss(model(batch), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if accelerator.is_main_process:
                line = {"step": step, "totalSteps": epochs * len(loader), "loss": loss.item()}
                with open(os.environ["XEONTRAIN_PROGRESS_FILE"], "a") as file:
                    file.write(json.dumps(line) + "\n")
    accelerator.end_training()


main()
