"""Where models come from, and where libraries may keep their caches.

Imports huggingface_hub only when needed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import MutableMapping

from .errors import MissingFileError, last_words

_FIELD = "spec.training.model"
# Everything a tokenizer, a config and safetensors weights consist of; not the copies for other frameworks.
_WANTED = ("*.json", "*.txt", "*.model", "*.safetensors", "*.jinja")
_OLD_WEIGHTS = "pytorch_model*"


def set_cache_folders(environ: MutableMapping[str, str], *, state_dir: str | None) -> None:
    """Point the caches of the Hub and of datasets at a writable folder, but only where nothing else works.

    A cache that the image has or the user names stays first, read-only or not: it may hold the model.
    To be called before huggingface_hub, datasets or transformers are imported; they read it once.
    """
    user_cache = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    home = environ.get("HF_HOME") or os.path.join(user_cache, "huggingface")
    if _writable(home):
        return
    scratch = os.path.join(_writable_base(state_dir), "huggingface")
    if "HF_HOME" not in environ and not os.path.isdir(home):
        environ["HF_HOME"] = scratch
        return
    environ.setdefault("HF_DATASETS_CACHE", os.path.join(scratch, "datasets"))
    environ.setdefault("HF_MODULES_CACHE", os.path.join(scratch, "modules"))


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
    if not _writable(cache):
        # An image brings its models in a read-only cache; what is in there needs no network.
        try:
            folder = snapshot_download(name, revision=revision, cache_dir=cache, local_files_only=True)
        except (LocalEntryNotFoundError, FileNotFoundError):
            cache = os.path.join(_writable_base(state_dir), "huggingface", "hub")
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


def _writable_base(state_dir: str | None) -> str:
    return state_dir if state_dir and _writable(state_dir) else tempfile.gettempdir()


def _writable(folder: str) -> bool:
    """Whether `folder` could be written, or made where it is not there yet."""
    while not os.path.exists(folder):
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent
    return os.access(folder, os.W_OK | os.X_OK)
