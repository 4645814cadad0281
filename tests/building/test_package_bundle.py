from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hotfoot import targets
from hotfoot.contract import bundle as bundles
from hotfoot.contract import manifest
from hotfoot.contract.bundle import MODEL_PLACE
from hotfoot.contract.errors import ArtifactError, BudgetError, HotfootError, InputError, UnsupportedError
from hotfoot.contract.manifest import WEIGHTS
from hotfoot.contract.target import Target
from hotfoot_build import budget
from hotfoot_build.package import bundle as packaging
from hotfoot_build.package import interpreters, tree
from hotfoot_build.package.bundle import bundle
from hotfoot_build.package.ledger import LEDGER
from support.handmade import write_artifact

HERE = interpreters.running_minor()


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock with one wheel, made here, so that the real uv runs without a network."""
    wheel = tmp_path / "wheels" / "tiny-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    content = {
        "tiny/__init__.py": b"VALUE = 42\n\n\ndef fail() -> None:\n    raise KeyError('tiny')\n",
        "tiny/__init__.pyi": b"VALUE: int\n",
        "tiny-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in content.items())
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in {**content, "tiny-1.0.dist-info/RECORD": record.encode()}.items():
            archive.writestr(name, data)
    lock = tmp_path / "tiny.txt"
    lock.write_text(f"--no-index\n--find-links {wheel.parent}\ntiny==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    return lock


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def ignore(message: str) -> None:
    assert message


def test_layout_index_and_sizes(tmp_path: Path, lock: Path) -> None:
    made_from = write_artifact(tmp_path / "artifact")
    out = tmp_path / "out"
    made = bundle(tmp_path / "artifact", out, progress=ignore, python=HERE, lock=lock)
    assert made == bundles.read(out)
    assert (made.target, made.python, made.arch, made.bytecode) == ("lambda-x86_64", HERE, "x86_64", True)
    assert (made.model_id, made.model_digest) == ("made/by-hand", made_from.digest)
    assert [layer.kind for layer in made.layers] == ["runtime", "tokenizer", "model"]
    for layer in (*made.layers, made.code):
        assert layer.hash == tree.content_hash(out / layer.path)
        assert layer.unzipped_bytes == tree.size(out / layer.path)
        assert layer.zipped_bytes == tree.zipped_size(out / layer.path)
    assert made.unzipped_bytes == tree.size(out / "layers") + tree.size(out / "code"), "what lies beside them is not deployed"
    assert sorted(p.name for p in out.iterdir()) == [bundles.BUNDLE, "code", "layers", LEDGER]
    model = out / "layers" / "model" / "hotfoot" / "model"
    assert sorted(p.name for p in model.iterdir()) == ["LICENSE", "manifest.json", "model.onnx"]
    tokenizer = out / "layers" / "tokenizer" / "hotfoot" / "tokenizers" / made_from.tokenizer.hash
    assert [p.name for p in tokenizer.iterdir()] == ["tokenizer.json"]
    assert sorted(p.name for p in (out / "layers" / "runtime" / "python").iterdir()) == ["tiny", "tiny-1.0.dist-info"]
    assert (out / "code" / "hotfoot" / "contract" / "manifest.py").is_file()
    assert not list(tmp_path.glob(".out.*"))


def test_bytecode_is_ours_hash_based_and_free_of_build_paths(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, python=HERE, lock=lock)
    tag = f"cpython-{HERE.replace('.', '')}"
    for tree_root in ("code", "layers/runtime/python"):
        sources = [p for p in tree.files(tmp_path / "out" / tree_root) if p.suffix == ".py"]
        assert sources
        for source in sources:
            compiled = source.parent / "__pycache__" / f"{source.stem}.{tag}.pyc"
            data = compiled.read_bytes()
            assert data[4:8] == b"\1\0\0\0", "unchecked-hash"
            assert os.fsencode(tmp_path) not in data
    runtime = tmp_path / "out" / "layers" / "runtime" / "python"
    assert b"/opt/python/tiny/__init__.py" in (runtime / "tiny" / "__pycache__" / f"__init__.{tag}.pyc").read_bytes()
    shown = subprocess.run(
        [sys.executable, "-S", "-c", "import tiny; tiny.fail()"],
        env={"PYTHONPATH": str(runtime)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f'File "{runtime}/tiny/__init__.py", line 5, in fail' in shown.stderr


def test_two_bundles_are_equal_and_the_second_takes_the_runtime_from_the_cache(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    said: list[str] = []
    first = bundle(tmp_path / "artifact", tmp_path / "one", progress=said.append, python=HERE, lock=lock)
    assert any("installing the wheels" in line for line in said)
    said.clear()
    second = bundle(tmp_path / "artifact", tmp_path / "two", progress=said.append, python=HERE, lock=lock)
    assert first == second
    assert tree.content_hash(tmp_path / "one") == tree.content_hash(tmp_path / "two")
    assert any("taken from the cache" in line for line in said)
    assert not any("installing" in line for line in said)


def test_a_damaged_cached_layer_is_made_again(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    first = bundle(tmp_path / "artifact", tmp_path / "one", progress=ignore, python=HERE, lock=lock)
    cached = next((tmp_path / "cache" / "hotfoot" / "layers").glob("*/runtime/python/tiny/__init__.py"))
    cached.write_text("VALUE = 0\n")
    said: list[str] = []
    assert bundle(tmp_path / "artifact", tmp_path / "two", progress=said.append, python=HERE, lock=lock) == first
    assert any("making it again" in line for line in said)


def test_a_cached_layer_that_another_bundle_copies_is_not_taken_away(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    first = bundle(tmp_path / "artifact", tmp_path / "one", progress=ignore, python=HERE, lock=lock)
    [cached] = (tmp_path / "cache" / "hotfoot" / "layers").iterdir()
    code = """
import sys
from pathlib import Path
from hotfoot_build import cache
with cache.using(Path(sys.argv[1]), lambda work: None) as place:
    print("ready", flush=True)
    sys.stdin.readline()
    print((place / "runtime/python/tiny/__init__.py").read_text())
"""
    said: list[str] = []
    with subprocess.Popen([sys.executable, "-c", code, str(cached)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        (cached / "runtime" / "python" / "tiny" / "__init__.py").write_text("VALUE = 0\n")

        def progress(message: str) -> None:
            said.append(message)
            if message.startswith("waiting for another process"):
                assert other.communicate("go on\n", timeout=60)[0] == "VALUE = 0\n\n"

        assert bundle(tmp_path / "artifact", tmp_path / "two", progress=progress, python=HERE, lock=lock) == first
    told = [line for line in said if not line.startswith("WARNING")]  # of the Python that runs here
    assert [line.split()[0] for line in told[:2]] == ["waiting", "runtime:"]
    assert "making it again" in told[1]


def test_models_with_one_tokenizer_share_its_layer_and_only_the_model_layer_changes(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "a", weights=b"one")
    write_artifact(tmp_path / "b", weights=b"other")
    a, b = (bundle(tmp_path / n, tmp_path / f"out-{n}", progress=ignore, python=HERE, lock=lock) for n in "ab")
    same = {x.kind: x.hash == y.hash for x, y in zip((*a.layers, a.code), (*b.layers, b.code), strict=True)}
    assert same == {"runtime": True, "tokenizer": True, "model": False, "code": True}


def test_no_interpreter_of_the_targets_python_is_said_loudly_and_written_down(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreters, "find", lambda _: None)
    write_artifact(tmp_path / "artifact")
    said: list[str] = []
    made = bundle(tmp_path / "artifact", tmp_path / "out", progress=said.append, lock=lock)
    assert made.bytecode is False
    assert said[0].startswith("WARNING: no Python 3.13 on this machine")
    assert not list((tmp_path / "out").rglob("__pycache__"))


def test_a_local_bundle_is_for_the_running_python(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact", target=targets.local().name)
    assert bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, lock=lock).python == HERE


def limited(bytes_allowed: int | None = None, layers: int | None = None) -> Target:
    target = targets.load("lambda-x86_64")
    return replace(target, limits=replace(target.limits, package_bytes=bytes_allowed, layers=layers))


def test_too_many_bytes_are_refused_with_the_largest_directories_and_no_output(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact", weights=b"\0" * 5_000_000)
    options = {"progress": ignore, "python": HERE, "lock": lock, "target": limited(4_000_000)}
    with pytest.raises(BudgetError) as refused:
        bundle(tmp_path / "artifact", tmp_path / "out", **options, package="layers")  # type: ignore[arg-type]
    message = str(refused.value)
    assert "5.0 MB artifact + " in message
    assert "lambda-x86_64 allows 4.0 MB in layers" in message
    assert "5.0 MB  model/model.onnx" in message
    assert "Without --package it would be: image." in message
    assert not (tmp_path / "out").exists()


def test_the_limit_counts_code_and_all_layers_to_the_byte(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    made = bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, python=HERE, lock=lock)
    exact = made.unzipped_bytes
    bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, python=HERE, lock=lock, target=limited(exact))
    other = bundle(tmp_path / "artifact", tmp_path / "other", progress=ignore, python=HERE, lock=lock, target=limited(exact - 1))
    assert other.package == "image", "it has nothing that S3 could hold"
    options = {"progress": ignore, "python": HERE, "lock": lock, "target": limited(exact - 1)}
    with pytest.raises(BudgetError, match="in layers"):
        bundle(tmp_path / "artifact", tmp_path / "out", **options, package="layers")  # type: ignore[arg-type]
    assert bundles.read(tmp_path / "out") == made, "the good bundle is still there"


def test_weights_that_do_not_fit_lie_beside_the_layers(tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaging, "LOCKS", lock.parent)
    lock.with_name("weights.txt").write_bytes(lock.read_bytes())
    made_from = write_artifact(tmp_path / "artifact", beside=b"\1" * 5_000_000)
    monkeypatch.setitem(budget.FETCH_BYTES, "x86_64", 1000)
    said: list[str] = []
    made = bundle(tmp_path / "artifact", tmp_path / "out", progress=said.append, python=HERE, lock=lock, target=limited(4_000_000))
    assert made == bundles.read(tmp_path / "out")
    assert made.package == "s3"
    assert any(line.startswith("package: 5.0 MB artifact + ") and "of weights from S3 into memory" in line for line in said)
    assert [layer.kind for layer in made.layers] == ["runtime", "fetch", "tokenizer", "model"]
    assert made.layers[0].hash == made.layers[1].hash, "the same wheel here"
    assert (tmp_path / "out" / "layers" / "fetch" / "python" / "tiny" / "__init__.py").is_file()
    assert made.weights is not None
    assert (made.weights.path, made.weights.unzipped_bytes) == ("weights", 5_000_000)
    assert (tmp_path / "out" / "weights" / MODEL_PLACE / WEIGHTS).read_bytes() == b"\1" * 5_000_000
    assert not list((tmp_path / "out" / "layers").rglob(WEIGHTS))
    assert manifest.read(tmp_path / "out" / "layers" / "model" / "hotfoot" / "model") == made_from
    assert made.unzipped_bytes == tree.size(tmp_path / "out" / "layers") + tree.size(tmp_path / "out" / "code") <= 4_000_000


@pytest.mark.parametrize(("python", "told"), [("3.11", True), ("3.12", False), ("3.14", False)])
def test_a_python_that_lambda_has_on_an_old_system_is_told(tmp_path: Path, lock: Path, python: str, told: bool) -> None:
    write_artifact(tmp_path / "artifact")
    said: list[str] = []
    bundle(tmp_path / "artifact", tmp_path / "out", progress=said.append, python=python, lock=lock)
    assert told == any("Amazon Linux 2, whose glibc 2.26 is too old" in line for line in said)


@pytest.mark.parametrize(("target", "package"), [("lambda-x86_64", "image"), ("cpu-container-x86_64", None)])
def test_an_image_has_a_dockerfile_beside_its_folders(tmp_path: Path, lock: Path, target: str, package: str | None) -> None:
    write_artifact(tmp_path / "artifact", target=target, beside=b"\1" * 1000)
    made = bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, python=HERE, lock=lock, package=package)
    assert (made.package, made.weights) == ("image", None)
    file = (tmp_path / "out" / "Dockerfile").read_text()
    assert file.startswith(f"ARG PYTHON={HERE}\n")
    assert (tmp_path / "out" / ".dockerignore").read_text().split() == ["*", "!layers", "!code"]
    copied = [word for line in file.splitlines() if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert all((tmp_path / "out" / place).is_dir() for place in copied)
    assert (tmp_path / "out" / "layers" / "model" / "hotfoot" / "model" / WEIGHTS).is_file()
    if target.startswith("lambda"):
        assert f'CMD ["{made.handler}"]' in file


def test_a_package_that_the_target_cannot_run_is_refused_before_any_wheel(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact", target="cpu-container-x86_64")
    said: list[str] = []
    with pytest.raises(BudgetError, match="runs images, not s3") as refused:
        bundle(tmp_path / "artifact", tmp_path / "out", progress=said.append, python=HERE, lock=lock, package="s3")
    assert "Largest" not in str(refused.value)
    with pytest.raises(InputError, match="is ''; it must be one of"):
        bundle(tmp_path / "artifact", tmp_path / "out", progress=said.append, python=HERE, lock=lock, package="")
    assert said == []


def test_too_many_layers_are_refused(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    with pytest.raises(BudgetError, match="3 layers, lambda-x86_64 allows 2"):
        bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, python=HERE, lock=lock, target=limited(layers=2), package="layers")


def test_a_damaged_artifact_is_refused(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    (tmp_path / "artifact" / "model.onnx").write_bytes(b"onnz")
    with pytest.raises(ArtifactError, match=r"model\.onnx"):
        bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, lock=lock)


def test_another_targets_machine_is_refused(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact", target="cpu-container-x86_64")
    with pytest.raises(UnsupportedError, match="It lacks vnni"):
        bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, lock=lock, target=targets.load("lambda-x86_64"))
    with pytest.raises(UnsupportedError, match="lambda-arm64"):
        bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, lock=lock, target=targets.load("lambda-arm64"))


@pytest.mark.parametrize("python", ["3.10", "2.7", "3", "3.13.1", "new"])
def test_a_python_that_does_not_fit_is_refused(tmp_path: Path, lock: Path, python: str) -> None:
    write_artifact(tmp_path / "artifact")
    with pytest.raises(UnsupportedError, match=python.replace(".", r"\.")):
        bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, lock=lock, python=python)


def test_an_output_that_is_no_bundle_is_never_replaced(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    out = tmp_path / "precious"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(ArtifactError, match="is no bundle"):
        bundle(tmp_path / "artifact", out, progress=ignore, lock=lock)
    assert (out / "thesis.txt").read_text() == "years of work"


def test_a_wheel_that_does_not_fit_its_hash_stops_the_bundle(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    lock.write_text(lock.read_text().rsplit(":", 1)[0] + ":" + "0" * 64 + "\n")
    with pytest.raises(HotfootError, match=r"tiny\.txt"):
        bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, python=HERE, lock=lock)
    assert not list((tmp_path / "cache" / "hotfoot" / "layers").iterdir())


def test_a_users_own_task_ships_with_its_package(tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "mypkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "mytask.py").write_text("TASK = None\n")
    monkeypatch.syspath_prepend(str(package.parent))
    write_artifact(tmp_path / "artifact", task="mypkg.mytask")
    bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, python=HERE, lock=lock)
    assert (tmp_path / "out" / "code" / "mypkg" / "mytask.py").is_file()
    write_artifact(tmp_path / "other", task="nowhere.mytask")
    with pytest.raises(UnsupportedError, match=r"nowhere\.mytask"):
        bundle(tmp_path / "other", tmp_path / "out2", progress=ignore, python=HERE, lock=lock)


def test_bundle_json_names_no_path_of_this_machine(tmp_path: Path, lock: Path) -> None:
    write_artifact(tmp_path / "artifact")
    bundle(tmp_path / "artifact", tmp_path / "out", progress=ignore, python=HERE, lock=lock)
    text = (tmp_path / "out" / bundles.BUNDLE).read_text()
    assert str(tmp_path) not in text
    assert json.loads(text)["code"]["path"] == "code"
    assert manifest.read(tmp_path / "out" / "layers" / "model" / "hotfoot" / "model").model.id == "made/by-hand"


def test_finds_the_running_interpreter_and_none_for_a_version_that_is_nowhere() -> None:
    found = interpreters.find(HERE)
    assert found is not None
    assert found.minor == HERE
    assert found.path.is_file()
    assert found.prefix == Path(sys.base_prefix)
    assert interpreters.find("3.99") is None
