"""The wheel: that everything is in it, and that it works where there is no repository, up to a built and verified artifact."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from hotfoot_build import environment
from walls.house import PACKAGES, ROOT, tracked

pytestmark = pytest.mark.slow

# runs in the export environment: a BERT with random weights, wide enough for int8 products, and the vocabulary to go with it
TINY = """
import sys
from pathlib import Path
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

home = Path(sys.argv[1])
letters = [chr(c) for c in range(33, 127)]
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters), "the", "and", "##ing"]
(home / "vocab.txt").write_text("\\n".join(words) + "\\n", encoding="utf-8")
BertTokenizerFast(str(home / "vocab.txt"), model_max_length=64).save_pretrained(home)
torch.manual_seed(0)
config = BertConfig(
    vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=64
)
BertModel(config).save_pretrained(home)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--wheel-dir", str(out), cwd=out)
    [found] = out.glob("hotfoot-*.whl")
    return found


def run(*command: str, cwd: Path, environ: dict[str, str] | None = None) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        command, cwd=cwd, env=clean | (environ or {}), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_wheel_holds_every_file_of_the_three_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
        notes = [name for name in archive.namelist() if ".dist-info/licenses/" in name]
    wanted = {p.relative_to(home.parent).as_posix() for home in PACKAGES.values() for p in tracked() if p.is_relative_to(home)}
    data = {"data/general.txt", "package/locks/runtime.txt", "package/images/lambda.Dockerfile", "package/images/container.Dockerfile"}
    assert {"hotfoot_infra/__init__.py", *(f"hotfoot_build/{name}" for name in data)} <= wanted
    assert inside == wanted
    assert [Path(name).name for name in notes] == ["LICENSE"]


@pytest.fixture(scope="module")
def bin_dir(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a new environment that has the wheel and what it asks for."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(home, with_pip=True)
    run(str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[build]", cwd=home)
    return home / "bin"


def test_the_command_answers(bin_dir: Path, tmp_path: Path) -> None:
    assert "hotfoot build" in run(str(bin_dir / "hotfoot"), "--help", cwd=tmp_path)
    assert "lambda-arm64" in run(str(bin_dir / "hotfoot"), "targets", cwd=tmp_path)


def test_what_another_extra_brings_is_asked_for_in_a_line(wheel: Path, bin_dir: Path, tmp_path: Path) -> None:
    done = subprocess.run([str(bin_dir / "hotfoot"), "serve", "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "unsupported this needs uvicorn: pip install 'hotfoot[server]'.\n")
    base = tmp_path / "venv"
    venv.create(base, with_pip=True)
    run(str(base / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel), cwd=base)
    done = subprocess.run([str(base / "bin" / "hotfoot"), "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("hotfoot: the command needs typer: pip install 'hotfoot[build]'.")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_it_builds_and_verifies(precision: str, bin_dir: Path, tmp_path: Path) -> None:
    exporter = environment.python(print)
    model = tmp_path / "tiny"
    model.mkdir()
    run(str(exporter), "-c", TINY, str(model), cwd=tmp_path)
    environ = {"HOTFOOT_EXPORT_PYTHON": str(exporter), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    hotfoot = str(bin_dir / "hotfoot")
    arguments = ["build", "tiny", "--task", "feature-extraction", "--precision", precision, "--out", "made"]
    assert run(hotfoot, *arguments, cwd=tmp_path, environ=environ).strip() == "made"
    assert "whole, digest" in run(hotfoot, "verify", "made", cwd=tmp_path)
    where = run(str(bin_dir / "python"), "-c", "import hotfoot_build; print(hotfoot_build.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(bin_dir.parent)
