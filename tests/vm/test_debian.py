"""Debian's kernels: which package a name means, and the folders and files that a kernel may be given as."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kernel_images import OPTIONS, bz_image, packaged
from tailback.vm import KernelError, debian, kernels

LISTING = """\
Package: linux-image-6.1.0-56-cloud-amd64
Version: 6.1.192-2
Depends: kmod, linux-base (>= 4.3~)

Package: linux-image-7.3.4+deb13-cloud-amd64
Version: 7.3.4-1~bpo13+1
Depends: dracut | initramfs-tools, linux-base-7.3.4+deb13-cloud-amd64 (= 7.3.4-1~bpo13+1), \
linux-binary-7.3.4+deb13-cloud-amd64 (= 7.3.4-1~bpo13+1), linux-modules-7.3.4+deb13-cloud-amd64 (= 7.3.4-1~bpo13+1)

Package: linux-image-7.3.4+deb13-amd64
Version: 7.3.4-1~bpo13+1

Package: linux-base-7.3.4+deb13-cloud-amd64
Version: 7.3.4-1~bpo13+1

Package: linux-binary-7.3.4+deb13-cloud-amd64
Version: 7.3.4-1~bpo13+1

Package: linux-modules-7.3.4+deb13-cloud-amd64
Version: 7.3.4-1~bpo13+1

Package: linux-image-7.1.13+deb13-cloud-amd64
Version: 7.1.13-1~bpo13+1
Depends: linux-base-7.1.13+deb13-cloud-amd64 (= 7.1.13-1~bpo13+1)

Package: linux-image-6.12.9+deb13-cloud-amd64
Version: 6.12.9-1

Package: linux-image-6.12.43+deb13-cloud-amd64
Version: 6.12.43-1

Package: linux-image-6.12.43+deb13-cloud-amd64-unsigned
Version: 6.12.43-1
"""


class Listed(debian.Archive):
    def _update(self) -> None: ...

    def _said(self, tool: str, *words: str, within: Path | None = None) -> str:
        return LISTING


needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> debian.Archive:
    monkeypatch.setattr(debian.shutil, "which", lambda tool: tool)
    return Listed(tmp_path)


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("debian-6.1", "linux-image-6.1.0-56-cloud-amd64"),
        ("debian-6.12", "linux-image-6.12.43+deb13-cloud-amd64"),
        ("debian-6.12.9", "linux-image-6.12.9+deb13-cloud-amd64"),
        ("debian-7.3", "linux-image-7.3.4+deb13-cloud-amd64"),
    ],
)
def test_a_series_means_its_newest_release_and_a_point_release_itself(
    archive: debian.Archive, name: str, package: str
) -> None:
    assert archive.find(name).name == package


def test_a_split_kernel_brings_its_parts(archive: debian.Archive) -> None:
    parts = archive.find("debian-7.3").parts
    assert [part.split("-")[1] for part in parts] == ["base", "binary", "modules"]


def test_a_kernel_whose_parts_are_gone_is_not_there(archive: debian.Archive) -> None:
    assert "debian-7.1" not in {package.kernel for package in archive.images()}


def test_a_series_that_is_not_there_is_answered_with_those_that_are(archive: debian.Archive) -> None:
    with pytest.raises(KernelError, match=r'"debian-9\.9".*debian-6\.1, debian-6\.12, debian-7\.3.*--list'):
        archive.find("debian-9.9")


def test_only_a_kernel_that_the_lists_have_is_to_be_fetched(
    archive: debian.Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernels, "archive", lambda: archive)
    monkeypatch.setattr(kernels, "fetched", list)
    with pytest.raises(KernelError, match=r"Fetch it: tailback vm fetch debian-6\.2"):
        kernels.find("debian-6.2")
    (tmp_path / "updated").touch()
    with pytest.raises(KernelError, match=r'no kernel "debian-6\.2" can be fetched\. The nearest is debian-6\.1\.'):
        kernels.find("debian-6.2")
    with pytest.raises(KernelError, match=r"Fetch it: tailback vm fetch debian-7\.3"):
        kernels.find("debian-7.3")


def test_the_hosts_sources_are_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(debian, "_run", lambda *words, within=None: asked.append(words) or "")
    debian.Archive(tmp_path)._said("apt-cache", "dumpavail")
    assert {f"Dir::Etc::sourcelist={tmp_path / 'sources.list'}", "Dir::Etc::sourceparts=-"} < set(asked[0])


def test_a_split_packages_folder_is_a_kernel(tmp_path: Path) -> None:
    image = packaged(tmp_path, OPTIONS, ("tun",), split=True)
    kernel = kernels.find(str(tmp_path))
    assert (kernel.image, kernel.release, kernel.hz) == (image, "9.9.9", 300)
    assert kernel.loads(["tun"])


def test_a_tree_in_which_a_kernel_was_built_is_a_kernel(tmp_path: Path) -> None:
    for name, contents in {
        "arch/x86/boot/bzImage": bz_image("9.9.9"),
        ".config": OPTIONS.encode(),
        "drivers/net/tun.ko": b"\0depends=\0",
        "drivers/net/tun.ko.cmd": b"make",
        "kernel/fork.c": b"",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(contents)
    kernel = kernels.find(str(tmp_path))
    assert kernel.release == "9.9.9"
    assert [name for name, _ in kernel.loads(["tun"])] == ["tun"]


def test_a_folder_without_a_kernel_is_refused_with_what_belongs_there(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"no kernel in this folder.*bzImage"):
        kernels.find(str(tmp_path))


@needs_dpkg
def test_a_package_is_a_kernel_with_its_parts_beside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "root"
    packaged(root, OPTIONS, ("tun",), split=True)
    modules = root / "usr/lib/modules/9.9.9"
    image = _package(tmp_path, "linux-binary-9.9.9", modules, ("vmlinuz", "config"))
    with pytest.raises(KernelError, match=r"modules of .* are not there"):
        kernels.find(str(image))
    _package(tmp_path, "linux-modules-9.9.9", modules, ("kernel",))
    kernel = kernels.find(str(image))
    assert (kernel.release, kernel.name) == ("9.9.9", str(image))
    assert kernels.fetched() == []


def _package(folder: Path, name: str, modules: Path, parts: tuple[str, ...]) -> Path:
    tree = folder / f"tree-{name}"
    target = tree / "usr/lib/modules/9.9.9"
    target.mkdir(parents=True)
    for part in parts:
        shutil.copytree(modules / part, target / part) if (modules / part).is_dir() else shutil.copy(
            modules / part, target
        )
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: a test <a@b.c>\nDescription: test\n"
    )
    file = folder / f"{name}_1_amd64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(file)], check=True, capture_output=True)
    return file


def test_a_machine_without_an_archive_of_debians_is_answered_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(debian, "_KEYRING", Path(__file__))
    monkeypatch.setattr(debian, "_run", lambda *words, within=None: "Packages|Ubuntu|http://archive.example/ubuntu\n")
    with pytest.raises(KernelError, match=r"knows no archive of Debian's.*--kernel FOLDER"):
        debian._sources()


def test_a_full_disk_is_named_once_and_not_list_by_list() -> None:
    says = "E: Failed to fetch http://a.example/Packages  Write error - write (28: Kein Platz)"
    with pytest.raises(KernelError, match=r"^sh -c .*: no space left on the disk\. Free some .*XDG_CACHE_HOME"):
        debian._run("sh", "-c", f"echo '{says}' >&2; exit 100")
