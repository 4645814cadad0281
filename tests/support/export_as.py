"""Export a tiny model as others would: with a given attention. Runs in the export environment: MODEL AUTO_CLASS TASK ATTENTION OUT."""

import os
import sys
import warnings
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
warnings.filterwarnings("ignore")

import torch  # noqa: E402 - after the environment that it reads
import transformers  # noqa: E402
from optimum.exporters.onnx import onnx_export_from_model  # noqa: E402


def main(model: str, auto_class: str, task: str, attention: str, out: str) -> None:
    loaded = getattr(transformers, auto_class).from_pretrained(model, attn_implementation=attention, torch_dtype=torch.float32)
    onnx_export_from_model(loaded.eval(), output=Path(out), task=task, opset=18, do_validation=False, library_name="transformers")


if __name__ == "__main__":
    main(*sys.argv[1:])
