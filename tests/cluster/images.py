"""The images of the test cluster and what each is made of.

`python -m tests.cluster.images` builds what is missing. A name carries a hash of the Dockerfile, its
arguments, the files it copies and the image it is based on: an image is built again exactly when one of
these changes.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.cluster import bases, requirements, settings
from tests.cluster.buildah import Build, Buildah
from tests.cluster.errors import ClusterError

HERE = Path(__file__).parent
REPOSITORY = settings.REPOSITORY
PREFIX = "localhost/xeontrain"
OPERATOR_SUITE = "bookworm"
TRAINER_SUITE = "forky"
LAUNCHER_TOOLS = ("make_launcher.py", "zipapp_main.py")


@dataclass(frozen=True)
class Recipe:
    """How one image is made.

    bases: recipe names by build argument. arguments: other build arguments. context: writes the build
    context into a folder; None: the repository. inputs: files and folders whose content the image depends on.
    """

    name: str
    dockerfile: Path
    bases: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[Path, ...] = ()
    context: Callable[..., None] | None = None
    facts: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)


def _recipes() -> dict[str, Recipe]:
    project = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "operator", "trainer")
    sources = tuple(REPOSITORY / name for name in project)
    torch_pins = tuple(REPOSITORY / f"constraints-{name}.txt" for name in ("torch", "ipex"))
    all_of_them = (
        *(_debian(suite) for suite in (OPERATOR_SUITE, TRAINER_SUITE)),
        Recipe("pause", HERE / "Dockerfile.pause", inputs=(HERE / "pause.c",), context=bases.pause_context),
        Recipe("pip", HERE / "Dockerfile.pip", bases={"BASE_IMAGE": OPERATOR_SUITE}),
        Recipe(
            "operator",
            REPOSITORY / "Dockerfile.operator",
            bases={"BASE_IMAGE": OPERATOR_SUITE, "BUILD_IMAGE": "pip"},
            inputs=(*sources, *(REPOSITORY / "tools" / name for name in LAUNCHER_TOOLS)),
        ),
        Recipe("thin", HERE / "Dockerfile.thin", bases={"BASE_IMAGE": TRAINER_SUITE}),
        Recipe("torch", HERE / "Dockerfile.torch", bases={"BASE_IMAGE": TRAINER_SUITE}),
        Recipe(
            "trainer-only",
            REPOSITORY / "Dockerfile.trainer",
            bases={"BASE_IMAGE": "torch"},
            inputs=(*sources, *torch_pins),
        ),
        Recipe(
            "trainer-ipex",
            REPOSITORY / "Dockerfile.trainer",
            bases={"BASE_IMAGE": OPERATOR_SUITE, "BUILD_IMAGE": "pip"},
            arguments={"VARIANT": "ipex", "TORCH_INDEX_URL": os.environ.get("TORCH_INDEX_URL", "")},
            inputs=(*sources, *torch_pins),
        ),
        Recipe(
            "trainer",
            HERE / "Dockerfile.trainer-hub",
            bases={"BASE_IMAGE": "trainer-only"},
            inputs=(REPOSITORY / "tools" / "hub_cache.py",),
            context=bases.hub_context,
        ),
    )
    return {recipe.name: recipe for recipe in all_of_them}


def _debian(suite: str) -> Recipe:
    return Recipe(
        suite,
        HERE / "Dockerfile.base",
        context=partial(bases.debian_context, suite=suite),
        facts=(suite, *bases.BASE_PACKAGES, *bases.UNUSED),
    )


# Needed by pods: the small ones on every node, the one with torch on the nodes that train.
SMALL = ("pause", "thin", "operator")
LARGE = ("trainer",)


class Images:
    """The images by short name; `reference` computes a full name, `ensure` builds what is missing."""

    def __init__(self, cache: Path | None = None) -> None:
        cache = cache or settings.cache_dir()
        self._logs = cache / "log"
        self._work = cache / "images" / "work"
        self._recipes = _recipes()
        self._references: dict[str, str] = {}
        self.store = Buildah(cache / "images", logs=self._logs)

    def reference(self, name: str) -> str:
        """Returns an image's full name with the hash of all that it is made of.

        Computed once: sources that are edited while an image is built do not rename it half-way.
        """
        if name not in self._references:
            self._references[name] = self._reference(self._recipes[name])
        return self._references[name]

    def _reference(self, recipe: Recipe) -> str:
        digest = hashlib.sha256(recipe.dockerfile.read_bytes())
        for text in (*recipe.facts, *self._arguments(recipe).values()):
            digest.update(text.encode())
        for path in recipe.inputs:
            digest.update(_content_hash(path).encode())
        return f"{PREFIX}/{recipe.name}:{digest.hexdigest()[:12]}"

    def _arguments(self, recipe: Recipe) -> dict[str, str]:
        arguments = {argument: self.reference(base) for argument, base in recipe.bases.items()}
        arguments.update(recipe.arguments)
        if "BASE_IMAGE" in arguments:
            # A default in a Dockerfile that refers to another argument is not filled in by every builder.
            arguments.setdefault("BUILD_IMAGE", arguments["BASE_IMAGE"])
        return arguments

    def ensure(self, names: Iterable[str] = (*SMALL, *LARGE)) -> dict[str, str]:
        """Builds and pushes to the OCI layout what is missing; returns full names by short name.

        Raises ComponentFailed where a build fails.
        """
        wanted = {name: self.reference(name) for name in names}
        for name, reference in wanted.items():
            if reference not in self.store.pushed():
                self._build(name)
                self.store.push(reference)
        return wanted

    def build(self, name: str) -> str:
        """Builds one image, where it is missing, and leaves it in the store; returns its full name."""
        self._build(name)
        return self.reference(name)

    def _build(self, name: str) -> None:
        for base in self._recipes[name].bases.values():
            self._build(base)
        with self.store.locked(name):
            if not self.store.has(self.reference(name)):
                self._build_one(self._recipes[name])

    def _build_one(self, recipe: Recipe) -> None:
        name = recipe.name
        self._work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=self._work) as scratch:
            context = REPOSITORY
            if recipe.context:
                context = Path(scratch)
                recipe.context(context, log=self._logs / f"image-{name}-context.log")
            self.store.build(
                Build(
                    name=self.reference(name),
                    dockerfile=recipe.dockerfile,
                    context=context,
                    arguments=self._arguments(recipe),
                )
            )


def _content_hash(path: Path) -> str:
    """Returns a hash of a file, or of all files under a folder with their paths; compiled ones left out."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    for one in files:
        if "__pycache__" not in one.parts:
            digest.update(str(one.relative_to(path.parent)).encode())
            digest.update(hashlib.sha256(one.read_bytes()).digest())
    return digest.hexdigest()


def main(argv: list[str]) -> int:
    """Builds the images named on the command line (all by default) and prints their full names."""
    try:
        requirements.require_nodes()
        built = Images().ensure(argv or (*SMALL, *LARGE))
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    for name, reference in built.items():
        print(f"{name:<10} {reference}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
