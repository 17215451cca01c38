"""A tar is read as the folder that it holds; nothing in it leads to a file of this machine."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from xeontrain_trainer.machine import MachineError, open_tree, read_machine

Member = tuple[str, "bytes | str"]
"""(name, content of a file) or (name, -> target of a link)."""

STAT = b"cpu0 1\ncpu1 1\n"


def tar(folder: Path, members: dict[str, bytes | str], *, mode: str = "w:gz", hard: bool = False) -> str:
    """A tar of files (bytes) and links (text: their target)."""
    path = folder / "recorded.tar"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.LNKTYPE if hard else tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return str(path)


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("prefix", ["", "./", "a/", "a/b/"])
def test_root_and_compression(tmp_path: Path, prefix: str, mode: str) -> None:
    """The root is wherever sys and proc are."""
    path = tar(tmp_path, {f"{prefix}proc/stat": STAT, f"{prefix}x/proc/notes": b"other"}, mode=mode)
    assert read_machine(path).numbers == (0, 1)


@pytest.mark.parametrize(
    ("link", "target"),
    [
        pytest.param("m/sys/x", "devices/file", id="relative"),
        pytest.param("m/sys/deep/x", "../devices/file", id="upwards"),
        pytest.param("m/sys/x", "/sys/devices/file", id="absolute-in-the-recorded-machine"),
        pytest.param("m/sys/x", "y/file", id="through-a-link-to-a-folder"),
    ],
)
def test_links_inside_are_followed(tmp_path: Path, link: str, target: str) -> None:
    members: dict[str, bytes | str] = {"m/proc/stat": STAT, "m/sys/devices/file": b"7\n", link: target}
    tree = open_tree(tar(tmp_path, {**members, "m/sys/y": "devices"}))
    assert tree.text(link[2:]) == "7"


def test_hard_links_are_followed(tmp_path: Path) -> None:
    path = tar(tmp_path, {"m/proc/stat": STAT, "m/sys/a": b"7\n", "m/sys/x": "m/sys/a"}, hard=True)
    assert open_tree(path).text("sys/x") == "7"


@pytest.mark.parametrize(
    "target",
    ["/etc/hostname", "../../../../../../../etc/hostname", "x", "y", "../../outside", "/m/../outside"],
)
def test_links_that_lead_out_or_nowhere_are_missing_files(tmp_path: Path, target: str) -> None:
    """Also those that lead to themselves, and to a file of the archive beside the recorded machine."""
    members: dict[str, bytes | str] = {
        "m/proc/stat": STAT,
        "m/sys/x": target,
        "m/sys/y": "x",
        "outside": b"7",
    }
    assert open_tree(tar(tmp_path, members)).text("sys/x") is None


def test_names_that_lead_out_are_passed_over(tmp_path: Path) -> None:
    path = tar(tmp_path, {"../escaped": b"x", "a/../../escaped": b"x", "proc/stat": STAT})
    assert read_machine(path).numbers == (0, 1)
    assert sorted(tmp_path.parent.glob("escaped")) == []


def test_a_folder_s_link_to_this_machine_is_a_missing_file(tmp_path: Path) -> None:
    """A recording with links to absolute paths must not tell of the machine that reads it."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_bytes(STAT)
    (tmp_path / "proc/cpuinfo").symlink_to("/proc/cpuinfo")
    (tmp_path / "sys").symlink_to("/sys")
    assert read_machine(str(tmp_path)).numbers == (0, 1)
    assert read_machine(str(tmp_path)).model == ""


def test_padding_of_archivers_is_no_content(tmp_path: Path) -> None:
    """tar takes a file of /sys for 4096 bytes and fills it up."""
    path = tar(tmp_path, {"sys/devices/system/cpu/online": b"0-2\n" + bytes(4092)})
    assert read_machine(path).numbers == (0, 1, 2)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"", "is no tar that can be read", id="empty"),
        pytest.param(b"apiVersion: v1\n", "is no tar that can be read", id="text"),
        pytest.param(b"\x1f\x8b\x08\x00rubbish", "is no tar that can be read", id="broken-gzip"),
    ],
)
def test_what_is_no_tar(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(content)
    with pytest.raises(MachineError, match=sentence):
        read_machine(str(path))


def test_a_tar_that_was_cut_off(tmp_path: Path) -> None:
    path = Path(tar(tmp_path, {"proc/stat": STAT, "sys/big": bytes(range(256)) * 4000}, mode="w:"))
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(MachineError, match="is no tar that can be read"):
        read_machine(str(path))


def test_a_tar_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"holds no sys/devices/system/cpu and no proc/stat"):
        read_machine(tar(tmp_path, {"readme.md": b"hello", "src/proc.c": b""}))


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no such file or folder"):
        read_machine(str(tmp_path / "none"))


def test_a_tar_far_too_large_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's image of a disk is read into memory."""
    monkeypatch.setattr("xeontrain_trainer.machine.archive.MAX_TOTAL_BYTES", 1000)
    path = tar(tmp_path, {"proc/stat": STAT, "sys/a": bytes(600), "sys/b": bytes(600)})
    with pytest.raises(MachineError, match="too large"):
        read_machine(path)
