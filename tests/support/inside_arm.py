"""A handler that looks around in the arm64 box: `{"ask": NAME}` answers with what the function NAME finds. Lies beside the bundle's code.

Imported before anything of the bundle, so that it hears of every module that Python compiles.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

compiled: list[str] = []  # modules' files that were compiled in this process, none of which should


def hear(event: str, arguments: tuple[Any, ...]) -> None:
    # by the import system: anyio parses its own source to find its names, dataclasses compile strings
    if event == "compile" and sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
        compiled.append(str(arguments[1]))


sys.addaudithook(hear)


def handler(event: dict[str, Any], _context: object) -> Any:
    return ASKED[event["ask"]]()


def machine() -> dict[str, Any]:
    """What this CPU is, by Python, by the kernel's word to each process, and as hotfoot reads it."""
    from hotfoot import targets

    auxiliary = ctypes.CDLL(None).getauxval
    auxiliary.restype, auxiliary.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "hardware": [auxiliary(16), auxiliary(26)],  # AT_HWCAP, AT_HWCAP2
        "features": sorted(targets.cpu_features()),
        "cpu_files": Path("/sys/devices/system/cpu").exists(),
    }


def threads() -> dict[str, Any]:
    """What hotfoot makes of the CPUs here, by the function's memory in MB."""
    from hotfoot import settings

    return {
        "granted": str(settings.cgroup_cpus()),
        "allowed": len(os.sched_getaffinity(0)),
        "usable": {str(memory): settings.usable_threads(memory) for memory in (None, 512, 1769, 3538, 10240)},
        "read": settings.read().threads,
    }


def bytecode() -> dict[str, Any]:
    """How many of the bundle's modules the real handler brings, and which files were compiled for it or for anything before."""
    from hotfoot.handlers.http import model

    control = import_module("uncompiled")
    brought = [
        m.__file__ for m in list(sys.modules.values()) if (getattr(m, "__file__", None) or "").startswith(("/opt/", "/var/task/hotfoot"))
    ]
    return {
        "modules": len([f for f in brought if f and f.endswith(".py")]),
        "compiled": compiled,
        "model": model.manifest.model.id,
        "control": control.__name__,
    }


def integers() -> dict[str, Any]:
    """How many values of the products differ from what they should be, and from what is furthest off."""
    import numpy as np
    import onnxruntime as ort

    session = ort.InferenceSession("/var/task/products.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    with np.load("/var/task/rows.npz") as rows, np.load("/var/task/wanted.npz") as wanted:
        found = dict(zip(names, session.run(names, dict(rows)), strict=True))
        return {
            "products": len(found),
            "values": int(sum(array.size for array in found.values())),
            "types": sorted({str(array.dtype) for array in found.values()}),
            "different": {name: int(np.count_nonzero(array != wanted[name])) for name, array in found.items()},
        }


def seconds() -> float:
    """The least CPU time of all products, of five runs in one thread."""
    import numpy as np
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession("/var/task/products.onnx", options, providers=["CPUExecutionProvider"])
    with np.load("/var/task/rows.npz") as rows:
        feed = dict(rows)
    taken = []
    for _ in range(5):
        start = time.process_time()
        session.run(None, feed)
        taken.append(time.process_time() - start)
    return min(taken)


ASKED = {"machine": machine, "threads": threads, "bytecode": bytecode, "integers": integers, "seconds": seconds}
