// Block 0 releases what it wrote; the reader polls the flag and goes on without a fence.
extern "C" __global__ void __launch_bounds__(64) missing_fence(const float* A, float* B, int tiles, float* handed, int* flag) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        for (int i = 0; i < tiles * 4; ++i) handed[i * 64 + t] = A[i * 64 + t] * 2;  // @write
        tile::sync_threads(TILE_SYNC(0));
        if (t == 0) {
            tile::fence_device();
            tile::atomic_exch(flag, 1);
        }
        return;
    }
    if (t == 0) {
        while (tile::atomic_add(flag, 0) == 0) {}
#ifndef PLANTED
        tile::fence_device();
#endif
    }
    tile::sync_threads(TILE_SYNC(1));
    for (int i = 0; i < tiles * 4; ++i) B[i * 64 + t] = handed[i * 64 + t];  // @use
}
