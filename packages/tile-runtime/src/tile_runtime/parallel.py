"""Many kernels compiled at once: threads that ask the caches, processes that lower and compile.

Lowering is Python and a thread would wait for its turn, so it is done by worker processes (`worker`), which import no
torch. A worker gets a traced function and resolved options and gives back the files of a cache entry; keys, caches and
loading stay here, in one thread for each worker, so that all is as for a kernel compiled alone.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TextIO

from tile_core.errors import InternalError, OptionError, TileError, ToolchainError, declare_codes
from tile_core.ir import PrimFunc
from tile_core.plugin import registry
from tile_core.plugin.api import Artifact
from tile_core.settings import settings

from .cache.artifact import artifact_from_files
from .child import Child, ChildEnded
from .compiler import Request, compile_kernel
from .kernel import Kernel
from .options import CompileOptions

__all__ = ["Progress", "WorkerPool", "compile_all", "worker_count"]

declare_codes(
    {
        "E-WORKERS": "num_workers is not a whole number above 0",
        "E-WORKER-DIED": "a process that compiled a kernel ended before it was done",
        "E-WORKER-TIMEOUT": "a process that compiled a kernel took longer than it may",
    }
)


def compile_all(
    functions: Sequence[PrimFunc],
    options: CompileOptions,
    num_workers: int | None = None,
    ignore_error: bool = False,
    pool: WorkerPool | None = None,
) -> list[Kernel | None]:
    """A kernel for each function, in their order; see `tile_core.par_compile`.

    Args:
        functions: traced.
        options: for all of them.
        num_workers: how many at once.
        ignore_error: None for a function that fails instead of raising.
        pool: workers to use again; made for this call if not given.
    """
    return compile_each([(function, options) for function in functions], num_workers, ignore_error, pool)


def compile_each(
    jobs: Sequence[tuple[PrimFunc, CompileOptions]],
    num_workers: int | None = None,
    ignore_error: bool = False,
    pool: WorkerPool | None = None,
) -> list[Kernel | None]:
    """`compile_all` with options for each function."""
    count = worker_count(num_workers, len(jobs))
    verbose = any(settings.verbose if options.verbose is None else options.verbose for _, options in jobs)
    progress = Progress(len(jobs), wanted=verbose or sys.stderr.isatty())
    if count <= 1 and pool is None:
        return [_finished(lambda job=job: compile_kernel(*job), ignore_error, progress) for job in jobs]
    own = pool is None
    pool = pool or WorkerPool(count)
    threads = ThreadPoolExecutor(pool.count, thread_name_prefix="tile-compile")
    try:
        futures: list[Future[Kernel | None]] = [
            threads.submit(_finished, lambda job=job: compile_kernel(*job, pool.build), ignore_error, progress)
            for job in jobs
        ]
        return [future.result() for future in futures]
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
        progress.end()
        if own:
            pool.close()


def worker_count(wanted: int | None, jobs: int) -> int:
    """How many workers to start: as wanted, else one for each core that this process may use; no more than jobs.

    Raises:
        OptionError: a number below 1.
    """
    if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1):
        raise OptionError(
            "E-WORKERS", f"num_workers={wanted!r}", facts=("allowed: a whole number, 1 or more, or None",)
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(0, min(wanted or cores, jobs))


class WorkerPool:
    """Processes that lower and compile, started when first needed. A context manager; safe for threads.

    Args:
        count: how many.
        timeout: seconds that a kernel may take; a process that takes longer is killed.
    """

    def __init__(self, count: int, timeout: float | None = None) -> None:
        self.count = count
        self.timeout = timeout
        self._closed = False
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._workers: list[_Worker] = []
        for _ in range(count):
            worker = _Worker()
            self._workers.append(worker)
            self._idle.put(worker)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def build(self, request: Request) -> Artifact:
        """The artifact of a request, made by a worker; here where it cannot be sent to one.

        Raises:
            TileError: what the worker found wrong.
        """
        (made,) = self.build_unit([request])
        if isinstance(made, TileError):
            raise made
        return made

    def build_unit(self, requests: Sequence[Request]) -> list[Artifact | TileError]:
        """The artifacts of several requests, made by one worker one after the other and given back together; an error
        in the place of one that is wrong. Where the worker ends before it is done, each is made alone.

        Raises:
            TileError: the worker ended on a single request.
        """
        jobs = {place: job for place, job in enumerate(map(_job, requests)) if job is not None}
        replies: dict[int, tuple[str, Any]] = {}
        if jobs:
            worker = self._idle.get()
            limit = None if self.timeout is None else self.timeout * len(jobs)
            try:
                reply = worker.ask(pickle.dumps(list(jobs.values())), requests[0].function.name, limit)
                replies = dict(zip(jobs, pickle.loads(reply)))
            except (ToolchainError, InternalError):
                if len(requests) == 1 or self._closed:
                    raise
            finally:
                self._idle.put(worker)
            if not replies:
                return [self._alone(request) for request in requests]
        return [_outcome(request, *replies.get(place, ("strange", None))) for place, request in enumerate(requests)]

    def _alone(self, request: Request) -> Artifact | TileError:
        try:
            return self.build(request)
        except TileError as error:
            return error

    def close(self) -> None:
        """Ends the workers."""
        self._closed = True
        for worker in self._workers:
            worker.tell()
        for worker in self._workers:
            worker.end()


class _Worker:
    """One process that compiles."""

    def __init__(self) -> None:
        self._child = Child("tile_runtime.worker")

    def ask(self, job: bytes, name: str, timeout: float | None = None) -> bytes:
        if not self._child.alive:
            self._child.start()
        try:
            return self._child.exchange(job, timeout)
        except ChildEnded as ended:
            if ended.late:
                raise ToolchainError(
                    "E-WORKER-TIMEOUT",
                    f"compiling {name} took longer than {timeout:g} s",
                    help="allow more time, or leave this configuration out",
                ) from None
            raise InternalError(
                "E-WORKER-DIED",
                f"the process that compiled {name} ended with exit code {ended.code}",
                help="compile it alone with tile.compile to see where; please report it",
            ) from None

    def tell(self) -> None:
        self._child.tell()

    def end(self) -> None:
        self._child.end()


class Progress:
    """A bar on standard error: how many of `total` are done, and since when.

    Args:
        total: how many there will be.
        wanted: whether to print anything.
        what: the verb.
        file: standard error if not given.
    """

    WIDTH = 24

    def __init__(self, total: int, wanted: bool, what: str = "compiled", file: TextIO | None = None) -> None:
        self.total, self.what = total, what
        self.done = self.failed = 0
        self._file = (file or sys.stderr) if wanted and total > 1 else None
        self._start = time.perf_counter()
        self._lock = threading.Lock()
        self._show()

    def step(self, failed: bool = False) -> None:
        """One more is done."""
        with self._lock:
            self.done += 1
            self.failed += failed
            self._show()

    def end(self) -> None:
        """Leaves the bar as it is and goes to the next line."""
        if self._file is not None:
            print(file=self._file, flush=True)
            self._file = None

    def _show(self) -> None:
        if self._file is None:
            return
        filled = self.WIDTH * self.done // self.total
        failed = f", {self.failed} failed" if self.failed else ""
        seconds = time.perf_counter() - self._start
        bar = "#" * filled + "." * (self.WIDTH - filled)
        text = f"\r{self.what} {self.done}/{self.total} [{bar}] {seconds:.1f} s{failed}"
        print(text, end="", file=self._file, flush=True)


def _job(request: Request) -> bytes | None:
    """What a worker is sent; None where something of it has no meaning in another process."""
    if settings.watches_passes or not registry.current().installed:
        return None
    try:
        return pickle.dumps(
            {
                "target": (request.target.kind, dict(request.target.attrs)),
                "execution_backend": request.execution.name,
                "function": pickle.dumps(request.function),
                "settings": settings.held(),
                "base": request.base_key(),
            }
        )
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _outcome(request: Request, state: str, content: Any) -> Artifact | TileError:
    """What a worker's reply says; where there is none, or from another registry or code than ours, it is made here."""
    try:
        if state == "error":
            return content
        if state == "strange":
            return request.compiled()
        files, notes = content
        artifact = artifact_from_files(files, request.function, request.target)
        artifact.notes.update(notes)
        return artifact
    except TileError as error:
        return error


def _finished(make: Callable[[], Kernel], ignore_error: bool, progress: Progress) -> Kernel | None:
    failed = True
    try:
        kernel = make()
        failed = False
        return kernel
    except TileError:
        if not ignore_error:
            raise
        return None
    finally:
        progress.step(failed)
