from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hotfoot import targets
from hotfoot.contract import bundle as bundles
from hotfoot.contract import codec
from hotfoot.contract.errors import ArtifactError
from hotfoot_build import bundle_command
from hotfoot_build.package import interpreters, ledger, prune, tree, treemap, wheels
from hotfoot_build.package.bundle import bundle
from hotfoot_build.package.ledger import LEDGER, Ledger
from support.bundled import ledger_by_hand, part_by_hand, rigged_bundle
from support.handmade import write_artifact

HERE = interpreters.running_minor()
LIMIT = 262_144_000
END_RECORD = 22  # bytes at the end of a zip
NOISE = np.random.default_rng(7).bytes  # does not compress
INSTALLED = {
    "one/__init__.py": b"VALUE = 1\n" * 50,
    "one/_native.bin": NOISE(9000),
    "one/tests/test_one.py": b"assert True\n" * 30,
    "one/types.pyi": b"VALUE: int\n",
    "one.libs/libone.bin": NOISE(7000),
    "one-1.5.dist-info/METADATA": b"Name: one\n",
    "one-1.5.dist-info/RECORD": b"one/__init__.py,,\n",
    "single.py": b"def call(): pass\n" * 40,
    "single-2.0.post1.dist-info/METADATA": b"Name: single\n",
    "bare/__init__.py": b"",
}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle whose packages are a few files; all else is done as for real wheels."""

    def install(_lock: Path, into: Path, **_: str) -> None:
        for name, content in INSTALLED.items():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes(content)

    monkeypatch.setattr(wheels, "install", install)
    write_artifact(tmp_path / "artifact", weights=NOISE(20_000))
    bundle(tmp_path / "artifact", tmp_path / "out", progress=print, python=HERE)
    return tmp_path / "out"


def walked(root: Path) -> int:
    """As `du --apparent-size` without the directories."""
    return sum((Path(folder) / name).stat().st_size for folder, _, names in os.walk(root) for name in names)


def zip_of(root: Path) -> zipfile.ZipFile:
    stream = io.BytesIO()
    tree.write_zip(root, stream)
    return zipfile.ZipFile(stream)


def check_against_the_disk(directory: Path) -> Ledger:
    """Every number of the ledger, from the files themselves."""
    found, index = ledger.read(directory), bundles.read(directory)
    parts = {part.name: part for part in found.parts}
    assert list(parts) == ["runtime", "tokenizer", "model", "code"]
    for layer in (*index.layers, index.code):
        part = parts[layer.kind]
        assert part.unzipped_bytes == walked(directory / layer.path)
        assert part.zipped_bytes == tree.zipped_size(directory / layer.path) == layer.zipped_bytes
        for row in part.largest:
            assert row.unzipped_bytes == (directory / layer.path / row.name).stat().st_size
    packages = directory / "layers" / "runtime" / "python"
    assert (
        found.unzipped_bytes
        == sum(part.unzipped_bytes for part in found.parts)
        == walked(directory / "layers") + walked(directory / "code")
    )
    assert found.zipped_bytes == sum(part.zipped_bytes for part in found.parts)
    assert sum(package.unzipped_bytes for package in found.packages) == walked(packages) == parts["runtime"].unzipped_bytes
    assert sum(package.zipped_bytes for package in found.packages) == parts["runtime"].zipped_bytes - END_RECORD
    for package in found.packages:
        assert [row.unzipped_bytes for row in package.largest] == [(packages / row.name).stat().st_size for row in package.largest]
        assert all(a.unzipped_bytes >= b.unzipped_bytes for a, b in pairwise(package.largest))
    return found


def test_every_number_is_that_of_the_files(made: Path) -> None:
    found = check_against_the_disk(made)
    assert [(package.name, package.version) for package in found.packages] == [("one", "1.5"), ("single", "2.0.post1"), ("bare", "")]
    one, single, _ = found.packages
    root = made / "layers" / "runtime" / "python"
    assert one.unzipped_bytes == walked(root / "one") + walked(root / "one.libs") + walked(root / "one-1.5.dist-info")
    assert [row.name for row in one.largest[:2]] == ["one/_native.bin", "one.libs/libone.bin"]
    assert f"__pycache__/single.cpython-{HERE.replace('.', '')}.pyc" in {row.name for row in single.largest}


def test_shares_are_of_the_targets_limit(made: Path) -> None:
    found = ledger.read(made)
    assert (found.target, found.limit_bytes) == ("lambda-x86_64", LIMIT)
    assert found.left_bytes == LIMIT - found.unzipped_bytes
    for row in (*found.parts, *found.packages, *found.packages[0].largest):
        assert row.share == pytest.approx(row.unzipped_bytes / LIMIT, abs=5e-7)
    assert found.share == pytest.approx(found.unzipped_bytes / LIMIT, abs=5e-7)
    assert sum(part.share or 0 for part in found.parts) == pytest.approx(found.share, abs=4e-6)


def test_an_image_is_held_against_its_own_limit(made: Path, tmp_path: Path) -> None:
    bundle(tmp_path / "artifact", tmp_path / "image", progress=print, python=HERE, package="image")
    found, layers = ledger.read(tmp_path / "image"), ledger.read(made)
    limit = targets.load("lambda-x86_64").limits.image_bytes
    assert found.unzipped_bytes == layers.unzipped_bytes
    assert limit is not None
    assert (found.limit_bytes, found.left_bytes) == (limit, limit - found.unzipped_bytes)
    assert found.parts[0].share == pytest.approx(found.parts[0].unzipped_bytes / limit, abs=5e-7)


def test_what_each_rule_saved_is_there_also_from_the_cache(made: Path, tmp_path: Path) -> None:
    saved = ledger.read(made).saved
    assert set(saved) == {rule.name for rule in prune.RULES}
    gone = {"tests": "one/tests/test_one.py", "stubs": "one/types.pyi", "install records": "one-1.5.dist-info/RECORD"}
    assert {name: count for name, count in saved.items() if count} == {rule: len(INSTALLED[path]) for rule, path in gone.items()}
    said: list[str] = []
    bundle(tmp_path / "artifact", tmp_path / "again", progress=said.append, python=HERE)
    assert any("taken from the cache" in line for line in said)
    assert (tmp_path / "again" / LEDGER).read_bytes() == (made / LEDGER).read_bytes()


def test_the_same_bundle_has_the_same_bytes_of_a_ledger(made: Path, tmp_path: Path) -> None:
    text = (made / LEDGER).read_text(encoding="utf-8")
    layers_made = tmp_path / "cache" / "hotfoot" / "layers"
    layers_made.rename(tmp_path / "forgotten")
    bundle(tmp_path / "artifact", tmp_path / "out", progress=print, python=HERE)
    assert list(layers_made.iterdir()), "made anew"
    assert (made / LEDGER).read_text(encoding="utf-8") == text
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert str(tmp_path) not in text
    assert codec.dumps(ledger.read(made)) == text


def test_a_ledger_and_its_picture_change_no_hash(made: Path) -> None:
    index = bundles.read(made)
    treemap.draw(ledger.read(made), made / treemap.PICTURE)
    assert bundles.read(made) == index
    assert [tree.content_hash(made / part.path) for part in (*index.layers, index.code)] == [p.hash for p in (*index.layers, index.code)]
    assert not [path for path in tree.files(made) if path.name in {LEDGER, treemap.PICTURE} and path.parent != made]


def test_a_bundle_without_a_ledger_says_so(made: Path) -> None:
    (made / LEDGER).unlink()
    with pytest.raises(ArtifactError, match=r"no ledger\.json in"):
        ledger.read(made)
    (made / LEDGER).write_text("{}")
    with pytest.raises(ArtifactError, match="packages: missing"):
        ledger.read(made)


def test_each_file_weighs_what_the_zip_has_for_it(tmp_path: Path) -> None:
    content = {"a/empty": b"", "a/zeros": b"\0" * 100_000, "größe.txt": b"umlauts in a name", "noise": NOISE(5000)}
    for name, data in content.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    total, files = tree.weigh(tmp_path)
    assert {name: weight.unzipped_bytes for name, weight in files.items()} == {name: len(data) for name, data in content.items()}
    assert total == sum(weight.zipped_bytes for weight in files.values()) + END_RECORD
    for entry in zip_of(tmp_path).infolist():
        headers = 30 + 46 + 2 * len(entry.filename.encode())
        assert files[entry.filename].zipped_bytes == entry.compress_size + headers
    (tmp_path / "none").mkdir()
    assert tree.weigh(tmp_path / "none") == (END_RECORD, {})


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("numpy/_core/x.so", "numpy"),
        ("numpy.libs/libopenblas.so", "numpy"),
        ("numpy-2.5.5.dist-info/METADATA", "numpy"),
        ("typing_extensions.py", "typing_extensions"),
        ("__pycache__/typing_extensions.cpython-313.pyc", "typing_extensions"),
        ("Mixed-1.0.dist-info/licenses/LICENSE", "mixed"),
        ("_ext.cpython-313-x86_64-linux-gnu.so", "_ext"),
    ],
)
def test_the_package_of_a_file(path: str, package: str) -> None:
    assert ledger.package_of(path) == package


def test_without_a_limit_there_are_no_shares() -> None:
    found = ledger_by_hand("cpu-container-x86_64")
    assert (found.limit_bytes, found.left_bytes, found.share) == (None, None, None)
    assert {row.share for row in (*found.parts, *found.packages)} == {None}
    assert codec.loads(Ledger, codec.dumps(found), "the test") == found


def test_the_largest_files_are_few_and_equal_ones_are_in_order() -> None:
    files = {f"python/numpy/{n:02}.so": 100 for n in reversed(range(20))}
    [package] = Ledger.of((part_by_hand("runtime", files),), targets.load("lambda-arm64")).packages
    assert [row.name for row in package.largest] == [f"numpy/{n:02}.so" for n in range(ledger.LARGEST)]
    assert package.unzipped_bytes == 2000


@pytest.mark.usefixtures("made")
def test_the_command_shows_parts_packages_rules_and_the_limit(tmp_path: Path) -> None:
    shown = Console(file=io.StringIO(), width=120)
    out = bundle_command.bundle(tmp_path / "artifact", tmp_path / "by-command", HERE, None, shown)
    assert isinstance(shown.file, io.StringIO)
    lines = [" ".join(line.replace("│", " ").split()) for line in shown.file.getvalue().splitlines()]
    found, index = ledger.read(out), bundles.read(out)
    assert (out / treemap.PICTURE).stat().st_size > 10_000
    for row, layer in zip(found.parts, (*index.layers, index.code), strict=True):
        assert any(line.startswith(f"{row.name} ") and line.endswith(layer.hash[:12]) for line in lines)
    assert any(line.startswith("one 1.5 ") for line in lines)
    assert "pruned: tests -0.4 kB" in lines
    assert not [line for line in lines if line.startswith("pruned: commands")], "a rule that saved nothing"
    assert any("left of 262.1 MB on lambda-x86_64; pruning saved 0.4 kB" in line for line in lines)
    no_limit = replace(found, limit_bytes=None, left_bytes=None, target="a box")
    shown.print(bundle_command.table(no_limit, index))
    assert "a box has no limit; pruning saved 0.4 kB" in shown.file.getvalue()


@pytest.mark.slow
def test_of_real_wheels(tmp_path: Path) -> None:
    found = check_against_the_disk(rigged_bundle(tmp_path, "lambda-arm64"))
    heaviest = {package.name: package for package in found.packages}
    assert {"numpy", "onnxruntime", "tokenizers", "starlette", "typing_extensions"} <= set(heaviest)
    assert all(package.version for package in found.packages), "each package has metadata, and none is only metadata"
    assert heaviest["onnxruntime"].largest[0].name.startswith("onnxruntime/capi/onnxruntime_pybind11_state")
    assert found.saved["onnxruntime C library"] > 15e6
