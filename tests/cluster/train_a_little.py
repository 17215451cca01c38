"""Inside a trainer image: trains a tiny model with Intel's extension, prints first and last progress line."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from xeontrain_trainer import contract
from xeontrain_trainer.train.__main__ import main

from tests.unit.trainer.train import tiny


def train(folder: Path) -> int:
    """One rank, as the launcher would start it; returns its exit code."""
    model = folder / "model"
    tiny.write_model(model)
    block = tiny.training(model, train=[tiny.write_csv(folder / "train.csv", tiny.rows(80))])
    document = {
        "contract": contract.CONTRACT_VERSION,
        "training": {**block, "ipex": "Enabled", "precision": "Auto"},
    }
    (folder / "training.json").write_text(json.dumps(document))
    os.environ.update(
        {
            contract.ENV_TRAINING_FILE: str(folder / "training.json"),
            contract.ENV_PROGRESS_FILE: str(folder / "progress.jsonl"),
            "HF_HOME": str(folder / "huggingface"),
            "HF_HUB_OFFLINE": "1",
        }
    )
    return main()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        code = train(Path(name))
        if code == 0:
            lines = (Path(name) / "progress.jsonl").read_text().splitlines()
            print(lines[0], lines[-1], sep="\n", flush=True)
    sys.exit(code)
