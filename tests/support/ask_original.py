"""The original's outputs for given ids and masks. Runs in the export environment: MODEL AUTO_CLASS OUTPUT IN.npz OUT.npz."""

import sys
import warnings

import numpy as np
import torch
import transformers

warnings.filterwarnings("ignore")


def main(model: str, auto_class: str, output: str, source: str, out: str) -> None:
    loaded = getattr(transformers, auto_class).from_pretrained(model, attn_implementation="eager", torch_dtype=torch.float32).eval()
    asked = np.load(source)
    answers = {}
    with torch.no_grad():
        for name in (n.removesuffix(".ids") for n in asked.files if n.endswith(".ids")):
            ids, mask = (torch.from_numpy(asked[f"{name}.{kind}"]) for kind in ("ids", "mask"))
            answers[name] = getattr(loaded(input_ids=ids, attention_mask=mask), output).numpy()
    np.savez(out, **answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
