"""All examples beside torch: ``python docs/examples/demo.py``.

Each kernel is checked before it is timed. The ratio is torch's time over ours: above 1 we are faster. Both use the
same number of threads.
"""

import platform

import elementwise
import flash_attention
import gemm
import rmsnorm
import softmax
import torch
from _run import device, measure, show

EXAMPLES = {
    "gemm": gemm,
    "flash attention": flash_attention,
    "softmax": softmax,
    "rmsnorm": rmsnorm,
    "gated chain": elementwise,
}


def main() -> int:
    """Prints the table; 0 when everything was right."""
    torch.manual_seed(0)
    print(
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}\n"
    )
    with torch.device(device()):
        show(measure(name, case) for name, module in EXAMPLES.items() for case in module.cases())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
