// A tile is turned round in shared memory; nothing stands between writing and reading it.
extern "C" __global__ void __launch_bounds__(64) missing_barrier(const float* A, float* B, int tiles) {
    TILE_SHARED(arena, 256);
    float* turned = (float*)(arena + 0);
    int t = threadIdx.x;
    for (int i = 0; i < tiles * 4; ++i) {
        turned[63 - t] = A[i * 64 + t] * 2;  // @write
#ifndef PLANTED
        tile::sync_threads(TILE_SYNC(0));
#endif
        float value = turned[t];  // @use
        B[i * 64 + 63 - t] = value;
        tile::sync_threads(TILE_SYNC(1));
    }
}
