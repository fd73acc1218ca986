"""CUDA's pipeline: the table of contents of how a kernel becomes CUDA C++."""

from __future__ import annotations

from tile_core.target import Target
from tile_core.transform import (
    ApplyLayouts,
    BindTarget,
    FlattenBuffer,
    InjectAssumes,
    LayoutInference,
    LegalizeNegativeIndex,
    LegalizeSafeMemoryAccess,
    LowerTileOp,
    MakePackedAPI,
    Options,
    Pipeline,
    PipelinePlanning,
    PlaceCountedFragments,
    PlanReducers,
    SelectInstructions,
    Simplify,
    SplitHostDevice,
    UnrollLoops,
    VectorizeLoop,
    VerifyBufferInit,
    VerifyFragmentIndex,
    VerifyLoopNesting,
    VerifyParallelLoop,
    VerifyRegions,
)
from tile_core.transform.device_sync import DeviceSync
from tile_core.transform.inject_software_pipeline import AsyncQueue, InjectSoftwarePipeline
from tile_core.transform.plan_shared_memory import PlanSharedMemory
from tile_core.transform.thread_sync import Meetings, ThreadSync

from .device import intrinsics
from .device.table import CP_ASYNC_QUEUE
from .target import architecture
from .transform import (
    AsynchronousNests,
    BindThreads,
    ChooseVectors,
    LowerParallelNests,
    OrderBlocks,
    RequireAlignment,
    ThreadPlacement,
    VectorizeAtomics,
    VersionAlignment,
)

__all__ = ["pipeline"]


def pipeline(target: Target, options: Options) -> Pipeline:
    """From TILE to PACKED for CUDA."""
    return Pipeline(
        "cuda",
        [
            # What the kernel means, checked: TILE
            BindTarget,
            BindThreads,
            PlanReducers,
            LegalizeNegativeIndex,
            InjectAssumes,
            Simplify,
            VerifyLoopNesting,
            PlaceCountedFragments,
            VerifyFragmentIndex,
            VerifyRegions,
            VerifyBufferInit,
            VerifyParallelLoop,
            VersionAlignment,
            # How each op is carried out, where its tiles lie, what overlaps: CHOSEN, LAID_OUT, PIPED
            UnrollLoops,
            AsynchronousNests,
            SelectInstructions,
            LayoutInference(ThreadPlacement()),
            PipelinePlanning,
            InjectSoftwarePipeline(_queues()),
            # What each thread does, with physical indices: THREAD
            LowerTileOp,
            ApplyLayouts,
            LowerParallelNests,
            LegalizeSafeMemoryAccess,
            Simplify,
            # Addresses, vectors, the arena and who waits for whom: FLAT
            FlattenBuffer,
            ChooseVectors,
            VectorizeLoop,
            VectorizeAtomics,
            Simplify,
            PlanSharedMemory(lambda target: architecture(target).block_shared_bytes),
            DeviceSync(intrinsics.sync_threads),
            ThreadSync(_meetings()),
            OrderBlocks,
            RequireAlignment,
            # Host and device: SPLIT, PACKED
            SplitHostDevice,
            MakePackedAPI("cuda"),
        ],
    )


def _queues() -> dict[str, AsyncQueue]:
    return {CP_ASYNC_QUEUE: AsyncQueue(intrinsics.cp_async_commit, intrinsics.cp_async_wait)}


def _meetings() -> Meetings:
    return Meetings(
        block=intrinsics.sync_threads,
        partial=lambda first, count, barrier: intrinsics.bar_sync(barrier, count),
        wait_all=lambda queue: intrinsics.cp_async_wait(0),
        commit=lambda queue: intrinsics.cp_async_commit(),
    )
