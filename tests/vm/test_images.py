"""Container images as a guest's root file system: layers over one another, and every file that is no image."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from test_programs import boots, compiled, exec_, scenario

import tailback as tb
from tailback import vm
from tailback.vm import images, private_loader
from tailback.vm.programs import gather

CONFIG = {"os": "linux", "architecture": "amd64", "config": {"Env": ["PATH=/app:/bin", "GREETING=hello"]}}
MOST = 1 << 20
File = bytes | str | None


def layer(files: Mapping[str, File]) -> bytes:
    """A layer: bytes are a file, text is where a link leads, None is a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, what in files.items():
            member = tarfile.TarInfo(name)
            member.mode = 0o755
            if isinstance(what, bytes):
                member.size = len(what)
                archive.addfile(member, io.BytesIO(what))
                continue
            member.type, member.linkname = (tarfile.DIRTYPE, "") if what is None else (tarfile.SYMTYPE, what)
            archive.addfile(member)
    return out.getvalue()


def saved(path: Path, *layers: bytes, config: Mapping[str, object] = CONFIG, images: int = 1) -> Path:
    """What `docker save` writes."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    rows = [{"Config": "c.json", "RepoTags": [f"a:{number}"], "Layers": names} for number in range(images)]
    parts = {"manifest.json": json.dumps(rows).encode(), "c.json": json.dumps(config).encode()}
    path.write_bytes(layer(parts | dict(zip(names, layers, strict=True))))
    return path


def layout(folder: Path, *layers: bytes) -> Path:
    """An OCI layout with packed layers."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(contents: bytes) -> dict[str, str]:
        value = hashlib.sha256(contents).hexdigest()
        (blobs / value).write_bytes(contents)
        return {"digest": f"sha256:{value}"}

    rows = [blob(gzip.compress(contents, mtime=0)) for contents in layers]
    manifest = {"config": blob(json.dumps(CONFIG).encode()), "layers": rows}
    other = {"digest": "sha256:0", "platform": {"os": "linux", "architecture": "arm64"}}
    ours = blob(json.dumps(manifest).encode()) | {"platform": {"os": "linux", "architecture": "amd64"}}
    (folder / "index.json").write_text(json.dumps({"manifests": [other, ours]}))
    return folder


@pytest.mark.parametrize("make", [saved, layout])
def test_layers_lie_over_one_another(tmp_path: Path, make: object) -> None:
    first = layer({
        "usr": None, "usr/lib": None, "lib": "usr/lib", "usr/lib/a": b"1", "usr/lib/b": b"1", "old": None,
        "old/x": b"1", "gone": b"1",
    })  # fmt: skip
    # A file below a link lies where that leads; a folder over the link to one is that folder.
    second = layer({"lib": None, "lib/a": b"2", ".wh.gone": b"", "old/.wh..wh..opq": b"", "old/y": b"2", "at": "lib/a"})
    image = images.read(make(tmp_path / "image", first, second), MOST)  # type: ignore[operator]
    files = {name: entry.contents for name, entry in image.entries.items() if not entry.is_folder}
    assert files == {
        "/lib": b"usr/lib", "/usr/lib/a": b"2", "/usr/lib/b": b"1", "/old/y": b"2", "/at": b"lib/a",
    }  # fmt: skip
    assert image.environment == {"PATH": "/app:/bin", "GREETING": "hello"}
    assert image.place("/at") == "/usr/lib/a"
    assert image.program("a", "/none:/lib") == "/lib/a"
    assert image.program("c", "/lib") is None


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (lambda path: path.write_bytes(b"words"), "cannot be read as an image"),
        (lambda path: path.write_bytes(layer({"x": b""})), "neither index.json nor manifest.json"),
        (lambda path: path.mkdir(), "a file index.json"),
        (lambda path: None, "is not there"),
        (lambda path: saved(path, layer({}), images=2), r"holds 2 images \(a:0, a:1\)"),
        (lambda path: saved(path, layer({}), config={"os": "linux", "architecture": "arm64"}), "is for linux/arm64"),
        (lambda path: saved(path, b"no archive"), "cannot be read as an image"),
        (lambda path: saved(path, layer({"../x": b""})), "leaves the image"),
        (lambda path: saved(path, layer({"x": b"0" * (MOST + 1)})), "holds more than 1 MB"),
        (lambda path: path.write_bytes(layer({"manifest.json": b"[{}]"})), "is no image: its description lacks"),
    ],
)
def test_what_is_no_image_is_named(tmp_path: Path, write: object, problem: str) -> None:
    path = tmp_path / "image.tar"
    write(path)  # type: ignore[operator]
    with pytest.raises(images.ImageError, match=problem):
        images.read(path, MOST)


def test_a_damaged_part_is_not_taken(tmp_path: Path) -> None:
    folder = layout(tmp_path / "image", layer({"x": b"1"}))
    largest = max((folder / "blobs/sha256").iterdir(), key=lambda file: file.stat().st_size)
    largest.write_bytes(largest.read_bytes() + b" ")
    with pytest.raises(images.ImageError, match="is damaged"):
        images.read(folder, MOST)


def _app(name: str = "app", image: str = "app.tar") -> tb.Flow:
    return exec_(name, params={"files": f"image:{image}"}, name="app")


def test_programs_are_the_images_and_one_image_is_a_guests(tmp_path: Path) -> None:
    saved(tmp_path / "app.tar", layer({"app": None, "app/app": b"#!/app/none\n", "etc": None, "etc/hosts": b"none\n"}))
    one = scenario(_app())
    found = gather(one, one.resolve(live=True), tmp_path, ["/nowhere/libbpf.so"])
    assert found is not None
    assert found.has_image
    assert b"app" in found.entries["/etc/hosts"].contents or b"left" in found.entries["/etc/hosts"].contents
    assert found.surroundings["environment"]["GREETING"] == "hello"
    # Of this machine there is a shell alone, with what it loads: the image has none, and programs wait in it.
    assert {"/bin/sh", "/lib64/ld-linux-x86-64.so.2"} < set(found.entries)
    assert "/bin/cat" not in found.entries
    shell = layer({"bin": None, "bin/sh": b"#!/app/none\n", "app": None, "app/app": b"#!/app/none\n"})
    saved(tmp_path / "app.tar", shell)
    found = gather(one, one.resolve(live=True), tmp_path, [])
    assert found is not None
    assert found.entries["/bin/sh"].contents == b"#!/app/none\n"
    assert "/lib64/ld-linux-x86-64.so.2" not in found.entries
    for flows, problem in [
        ([_app("curl")], r"the image has no program curl \(/app:/bin\)"),
        ([_app(image="none.tar")], "is not there"),
        ([_app(), exec_("app", params={"files": "image:other.tar"}, name="other")], "one root file system"),
    ]:
        one = scenario(*flows)
        with pytest.raises(tb.ScenarioError, match=problem):
            gather(one, one.resolve(live=True), tmp_path, [])


def test_the_guests_program_asks_for_a_loader_of_its_own() -> None:
    before = b"\x7fELF...\0/lib64/ld-linux-x86-64.so.2\0more"
    after = private_loader.program(before)
    assert len(after) == len(before)
    assert b"/tailback/ld.so\0" in after
    assert b"/lib64/" not in after


@boots
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_an_images_program_runs_over_the_guests_kernel(tmp_path: Path) -> None:
    text = """
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            FILE *own = fopen("/data", "r");
            char line[9] = "";
            if (own == NULL || fgets(line, sizeof line, own) == NULL) return 1;
            printf("%s from %s\\n", getenv("GREETING"), line);
            return 0;
        }"""
    program = compiled(tmp_path, "static", text, "-static").read_bytes()
    # A library that is none: the guest's own program does not take the image's.
    library = "lib/x86_64-linux-gnu/libelf.so.1"
    files: dict[str, File] = {"app": None, "app/app": program, "data": b"an image"}
    files |= {"lib": None, "lib/x86_64-linux-gnu": None, library: b"none"}
    saved(tmp_path / "app.tar", layer(files))
    file = tmp_path / "one.toml"
    file.write_text(scenario(_app()).to_toml())
    result = vm.run(tb.Scenario.from_toml(file), allow_code=True)
    assert result.files["app/client.out"] == b"hello from an image\n"
