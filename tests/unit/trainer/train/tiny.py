"""The tiny model and its sentences: a class is told by which words a sentence has."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xeontrain_trainer.train.config import TrainingConfig, parse_training
from xeontrain_trainer.train.files import find_sources
from xeontrain_trainer.train.tasks import task_of

if TYPE_CHECKING:
    from xeontrain_trainer.train.data import Prepared

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = {
    "ham": ["meeting", "lunch", "thanks", "report", "tomorrow", "list"],
    "spam": ["winner", "prize", "cash", "offer", "free", "click"],
}
COMMON = ["the", "a", "to", "of", "for", "and"]
VOCABULARY = {word: number for number, word in enumerate(SPECIAL + COMMON + WORDS["ham"] + WORDS["spam"])}
MAX_TOKENS = 32


def write_model(folder: Path) -> None:
    """A BERT with random weights, and its tokenizer, as `from_pretrained` loads them."""
    import torch
    from transformers import BertConfig, BertModel

    write_tokenizer(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MAX_TOKENS,
        initializer_range=0.2,
    )
    BertModel(config).save_pretrained(folder)


def write_writer(folder: Path) -> None:
    """A GPT-2 with random weights; its tokenizer has an end of text and, like GPT-2's, no padding token."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    write_tokenizer(folder, eos_token="[SEP]", pad_token=None)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(VOCABULARY),
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=MAX_TOKENS,
        bos_token_id=3,
        eos_token_id=3,
        initializer_range=0.2,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)


def write_seer(folder: Path) -> None:
    """A ResNet with random weights and batch normalization, and its image processor."""
    import torch
    from transformers import ConvNextImageProcessorPil, ResNetConfig, ResNetForImageClassification

    ConvNextImageProcessorPil(size={"shortest_edge": 16}, crop_pct=0.875).save_pretrained(folder)
    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=2
    )
    model = ResNetForImageClassification(config)
    with torch.no_grad():
        for name, statistics in model.named_buffers():
            if name.endswith("running_mean"):
                statistics.normal_(std=0.1)
            if name.endswith("running_var"):
                statistics.uniform_(0.2, 0.5)
    model.save_pretrained(folder)


def write_tokenizer(folder: Path, **options: Any) -> None:
    """A tokenizer of the few words, with special tokens as BERT has them."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordPiece(VOCABULARY, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    if "eos_token" not in options:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
        options = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"], **special}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, unk_token="[UNK]", **options
    ).save_pretrained(folder)


def rows(count: int, *, seed: int = 0) -> list[tuple[str, str]]:
    """`count` pairs of a sentence of 2 to 20 words and its class, both classes alternating."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        label = ("ham", "spam")[number % 2]
        words = [chance.choice(COMMON + WORDS[label]) for _ in range(chance.randint(1, 19))]
        made.append((" ".join([*words, chance.choice(WORDS[label])]), label))
    return made


def write_csv(
    path: Path, content: Sequence[Sequence[object]], *, header: Sequence[str] = ("text", "label")
) -> str:
    """Write a CSV file and return its path."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *content])
    return str(path)


def training(
    model: Path | str, *, train: Sequence[str], evaluate: Sequence[str] = (), **hyperparameters: object
) -> dict[str, Any]:
    """A `training` block as the training document holds it."""
    return {
        "task": "text-classification",
        "model": str(model),
        "modelRevision": None,
        "dataset": {
            "files": {"train": list(train), "eval": list(evaluate)},
            "columns": {"text": "text", "textPair": None, "label": "label"},
        },
        "hyperparameters": {"batchSize": 8, "maxLength": MAX_TOKENS, "learningRate": 5e-3, **hyperparameters},
        "precision": "FP32",
        "compile": False,
        # Where it is installed, importing it takes longer than all that is trained here.
        "ipex": "Disabled",
    }


def prepare(training: dict[str, Any] | TrainingConfig, *, processes: int = 1) -> Prepared:
    """The samples of a job, as its first rank makes them."""
    from xeontrain_trainer.train import data

    config = training if isinstance(training, TrainingConfig) else parse_training(training)
    task, files = task_of(config), config.dataset.files
    assert files is not None
    sources = find_sources(files, columns=task.columns(), formats=task.formats)
    return data.prepare(config, task=task, sources=sources, state_dir=None, processes=processes)
