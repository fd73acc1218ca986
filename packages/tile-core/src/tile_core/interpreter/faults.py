"""What goes wrong while a kernel runs in the interpreter."""

from __future__ import annotations

from ..errors import UserError, declare_codes

__all__ = ["ExecutionFault"]

declare_codes(
    {
        "E-RUN-ADDRESS": "a tensor over an address that is none",
        "E-RUN-ARGUMENT": "an argument of an interpreted function does not fit its parameter",
        "E-RUN-ASSERT": "an assertion or assumption of a kernel does not hold",
        "E-RUN-BOUNDS": "an access outside a buffer where that has no meaning",
        "E-RUN-DIVERGENCE": "a barrier or tile op that not all threads of the block reach",
        "E-RUN-DIVISION": "an integer division by zero",
        "E-RUN-EXTERNAL": "an operation that only a device can perform",
        "E-RUN-ITERATIONS": "a loop that goes on past the limit of the run",
        "E-RUN-UNWRITTEN": "a read of memory that nobody wrote",
    }
)


class ExecutionFault(UserError, RuntimeError):
    """The kernel does something that has no defined result; raised by the interpreter at the statement that does it."""
