"""What gets imported, asked of fresh interpreters in which the forbidden is absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.rigged import rigged_artifact
from walls.house import PACKAGES, fresh, modules

# boto3 is on Lambda, yet costs 0.3 s of every cold start: only where S3 is touched, inside functions
ABSENT = (
    "torch", "transformers", "optimum", "sentence_transformers", "onnx", "onnx_ir", "hotfoot_build", "hotfoot_infra", "aws_cdk", "cdk_nag",
    "boto3", "botocore", "typer", "rich", "huggingface_hub",
)  # fmt: skip
HANDLERS = [name for name in modules("hotfoot", "handlers") if name != "hotfoot.handlers"]
SEEN = "\nimport json\nprint(json.dumps(sorted(sys.modules)))"


def loaded(out: str) -> list[str]:
    names: list[str] = json.loads(out.splitlines()[-1])
    return names


def test_the_runtime_needs_nothing_of_the_build_stage() -> None:
    rest = [m for m in modules("hotfoot") if m not in HANDLERS]
    assert "hotfoot.model" in rest
    fresh(f"block(*{ABSENT})\nimport {', '.join(rest)}")


@pytest.mark.parametrize("module", HANDLERS)
def test_a_handler_starts_without_them_too(module: str, tmp_path: Path) -> None:
    artifact = rigged_artifact(tmp_path, "text-classification")
    fresh(f"block(*{ABSENT})\nimport {module}", environ={"HOTFOOT_ARTIFACT": str(artifact), "HOTFOOT_RESULTS_BUCKET": "results"})


def test_there_are_handlers() -> None:
    assert "hotfoot.handlers.http" in HANDLERS


def test_contract_and_targets_need_the_standard_library_alone() -> None:
    wanted = [*modules("hotfoot", "contract"), *modules("hotfoot", "targets")]
    # -S: no site-packages; -I: nothing of this machine's environment either
    code = f"allow('hotfoot')\nsys.path.insert(0, {str(PACKAGES['hotfoot'].parent)!r})\nimport {', '.join(wanted)}{SEEN}"
    inside = [m for m in loaded(fresh(code, "-I", "-S")) if m.startswith("hotfoot.")]
    assert [m for m in inside if m.split(".")[1] not in ("contract", "targets")] == []


def test_tasks_need_numpy_alone() -> None:
    names = [m for m in modules("hotfoot") if m.split(".")[1:2] in (["task"], ["tasks"], ["generation"])]
    inside = [m for m in loaded(fresh(f"allow('hotfoot', 'numpy')\nimport {', '.join(names)}{SEEN}")) if m.startswith("hotfoot.")]
    assert {m.split(".")[1] for m in inside} <= {"contract", "task", "tasks", "generation"}


def test_the_infrastructure_needs_no_runtime() -> None:
    absent = ("numpy", "onnxruntime", "tokenizers", "starlette", "hotfoot_build", "boto3")
    inside = loaded(fresh(f"block(*{absent})\nimport {', '.join(modules('hotfoot_infra'))}{SEEN}"))
    assert {m.split(".")[1] for m in inside if m.startswith("hotfoot.")} <= {"contract", "targets"}


@pytest.mark.parametrize("arguments", [["--help"], ["build", "--help"], ["targets"], ["tasks"]])
def test_the_command_line_answers_without_the_heavy_packages(arguments: list[str]) -> None:
    heavy = ("onnxruntime", "onnx", "onnx_ir", "huggingface_hub", "tokenizers", "boto3")
    out = fresh(f"block(*{heavy})\nsys.argv[1:] = {arguments}\nfrom hotfoot_build.cli import main\nmain()")
    assert out.strip()
