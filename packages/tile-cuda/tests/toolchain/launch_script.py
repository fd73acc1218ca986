"""Run by test_launcher in a process of its own: LIBRARY ENTRY ELEMENTS, then scenarios as JSON on standard input.

Each scenario is {"words", "devices"}: what the driver is to do, and where the two tensors of each call are. Prints what
the driver was asked and the error's message for each, as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from pathlib import Path

import tvm_ffi


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class OnDevice:
    """A float32 vector that claims to be on a CUDA device; nobody looks at its data."""

    def __init__(self, device: int, elements: int) -> None:
        self.device = device
        self.shape = (ctypes.c_int64 * 1)(elements)
        self.managed = Managed(DLTensor(0x1000, 2, device, 1, 2, 32, 1, self.shape, None, 0), None, None)

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, **options):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(ctypes.addressof(self.managed), b"dltensor", None)


def main() -> None:
    library, entry, elements = sys.argv[1:4]
    log = Path(os.environ["FAKE_CUDA_LOG"])
    results = []
    owners = []
    for number, scenario in enumerate(json.load(sys.stdin)):
        # A copy has its own state.
        copy = f"{library}.{number}.so"
        shutil.copy(library, copy)
        function = tvm_ffi.load_module(copy).get_function(entry)
        os.environ["FAKE_CUDA"] = scenario["words"]
        log.write_text("")
        message = ""
        for device in scenario["devices"]:
            owners += [OnDevice(device, int(elements)) for _ in range(2)]
            tensors = [tvm_ffi.from_dlpack(owner) for owner in owners[-2:]]
            try:
                function(*tensors)
            except Exception as error:
                message = str(error)
        results.append({"asked": log.read_text().splitlines(), "error": message})
    print(json.dumps(results))
    sys.stdout.flush()
    os._exit(0)  # the tensors have no owner to give them back to


main()
