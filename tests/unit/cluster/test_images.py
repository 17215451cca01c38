"""An image's name changes exactly when something that it is made of does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import images, requirements
from tests.cluster.images import Images, Recipe


@pytest.fixture
def library(tmp_path: Path) -> Images:
    """Two images, the second based on the first and made of a folder."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a.py").write_text("x = 1\n")
    library = Images(tmp_path / "cache")
    library._recipes = {
        "base": Recipe("base", tmp_path / "Dockerfile", facts=("bookworm",)),
        "top": Recipe(
            "top", tmp_path / "Dockerfile", bases={"BASE_IMAGE": "base"}, inputs=(tmp_path / "sources",)
        ),
    }
    return library


def names(library: Images) -> dict[str, str]:
    """Returns fresh names of both images."""
    library._references.clear()
    return {name: library.reference(name) for name in library._recipes}


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        pytest.param(lambda p: (p / "sources" / "a.py").write_text("x = 2\n"), {"top"}, id="content"),
        pytest.param(lambda p: (p / "sources" / "b.py").write_text(""), {"top"}, id="new file"),
        pytest.param(
            lambda p: (p / "sources" / "a.py").rename(p / "sources" / "c.py"), {"top"}, id="renamed file"
        ),
        pytest.param(lambda p: (p / "Dockerfile").write_text("FROM x\n"), {"base", "top"}, id="Dockerfile"),
        pytest.param(lambda p: (p / "sources" / "__pycache__").mkdir(), set(), id="compiled files"),
    ],
)
def test_names_follow_content(library: Images, tmp_path: Path, change: object, changed: set[str]) -> None:
    before = names(library)
    change(tmp_path)  # type: ignore[operator]
    (tmp_path / "sources" / "__pycache__").mkdir(exist_ok=True)
    (tmp_path / "sources" / "__pycache__" / "a.pyc").write_bytes(b"compiled")
    after = names(library)
    assert {name for name in after if after[name] != before[name]} == changed


def test_every_dockerfile_and_base_exists() -> None:
    """No recipe points at nothing."""
    recipes = images._recipes()
    for recipe in recipes.values():
        assert recipe.dockerfile.is_file()
        assert set(recipe.bases.values()) <= set(recipes)
    assert set(images.SMALL) | set(images.LARGE) <= set(recipes)


def test_system_packages_are_a_plain_list() -> None:
    """What `make system` installs: names only."""
    packages = requirements.system_packages()
    assert "buildah" in packages
    assert all(package.replace("-", "").isalnum() for package in packages)
