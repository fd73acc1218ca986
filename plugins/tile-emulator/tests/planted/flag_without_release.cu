// Block 0 writes and raises a flag, the others poll it and read; the writer has no fence.
extern "C" __global__ void __launch_bounds__(64) flag_without_release(const float* A, float* B, int tiles, float* handed, int* flag) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        for (int i = 0; i < tiles * 4; ++i) handed[i * 64 + t] = A[i * 64 + t] * 2;  // @write
        tile::sync_threads(TILE_SYNC(0));
        if (t == 0) {
#ifndef PLANTED
            tile::fence_device();
#endif
            tile::atomic_exch(flag, 1);
        }
        return;
    }
    if (t == 0) {
        while (tile::atomic_add(flag, 0) == 0) {}
        tile::fence_device();
    }
    tile::sync_threads(TILE_SYNC(1));
    for (int i = 0; i < tiles * 4; ++i) B[i * 64 + t] = handed[i * 64 + t];  // @use
}
