"""Where models come from. Imports huggingface_hub only when needed."""

from __future__ import annotations

import os

from ..caches import can_write, scratch_folder
from .errors import MissingFileError, last_words

_FIELD = "spec.training.model"
# Everything a tokenizer, a config and safetensors weights consist of; not the copies for other frameworks.
_WANTED = ("*.json", "*.txt", "*.model", "*.safetensors", "*.jinja")
_OLD_WEIGHTS = "pytorch_model*"


def model_folder(name: str, *, revision: str | None, state_dir: str | None) -> str:
    """The local folder of a model: itself if `name` is a folder, else its snapshot, fetched where necessary.

    Raises MissingFileError where there is no such folder, no such model, or no way to the Hub.
    """
    if os.path.isdir(name):
        return _checked(name, name=name)
    if name.startswith(("/", "./", "../")):
        raise MissingFileError(
            _FIELD, cause=f"there is no folder {name}", remedy="Check the path and spec.volumeMounts"
        )
    return _checked(_snapshot(name, revision=revision, state_dir=state_dir), name=name)


def _snapshot(name: str, *, revision: str | None, state_dir: str | None) -> str:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    cache = constants.HF_HUB_CACHE
    if not can_write(cache):
        # An image brings its models in a read-only cache; what is in there needs no network.
        try:
            folder = snapshot_download(name, revision=revision, cache_dir=cache, local_files_only=True)
        except (LocalEntryNotFoundError, FileNotFoundError):
            cache = os.path.join(scratch_folder(state_dir), "hub")
        else:
            return str(folder)
    try:
        folder = snapshot_download(name, revision=revision, cache_dir=cache, allow_patterns=list(_WANTED))
        if not _weights(folder):
            folder = snapshot_download(
                name, revision=revision, cache_dir=cache, allow_patterns=[_OLD_WEIGHTS]
            )
    except Exception as error:
        raise _unreachable(name, revision=revision, error=error) from error
    return str(folder)


def _unreachable(name: str, *, revision: str | None, error: Exception) -> Exception:
    """What the Hub's client says, as a user's error where it is one, else as it is."""
    from huggingface_hub import errors

    at = f"{name!r}" + (f" at revision {revision!r}" if revision else "")
    if isinstance(error, errors.GatedRepoError):
        return MissingFileError(
            _FIELD,
            cause=f"the model {at} needs an accepted licence and a token",
            remedy="Set HF_TOKEN in spec.envFrom from a Secret",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return MissingFileError(
            "spec.training.modelRevision",
            cause=f"the Hub has no model {at}",
            remedy="Write a branch, tag or commit that it has",
        )
    if isinstance(error, (errors.RepositoryNotFoundError, errors.HFValidationError)):
        return MissingFileError(
            _FIELD,
            cause=f"the Hub has no model {at}, or it is private",
            remedy="Check the name, or set HF_TOKEN in spec.envFrom from a Secret",
        )
    if isinstance(
        error, (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, errors.HfHubHTTPError, OSError)
    ):
        return MissingFileError(
            _FIELD,
            cause=f"{at} is not in the Hub's cache, and the Hub cannot be reached ({last_words(error)})",
            remedy="Give the pods a way to huggingface.co (HTTPS_PROXY or HF_ENDPOINT in spec.env), "
            "use an image with the model in its HF_HOME, or write the path of a mounted folder",
        )
    return error


def _checked(folder: str, *, name: str) -> str:
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise MissingFileError(
            _FIELD,
            cause=f"{name} holds no config.json, so it is not a model of transformers",
            remedy="Name a folder that save_pretrained wrote, or a model of the Hub",
        )
    if not _weights(folder):
        raise MissingFileError(
            _FIELD,
            cause=f"{name} holds neither model.safetensors nor pytorch_model.bin",
            remedy="Name a folder with the weights, or a model of the Hub that has PyTorch weights",
        )
    return folder


def _weights(folder: str) -> bool:
    return any(
        name.endswith(".safetensors") or name.startswith("pytorch_model") for name in os.listdir(folder)
    )
