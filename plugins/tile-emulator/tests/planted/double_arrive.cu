// Warp 0 fills, warp 1 takes; the filling warp says "full" twice.
extern "C" __global__ void __launch_bounds__(64) double_arrive(const float* A, float* B, int tiles) {
    TILE_SHARED(arena, 256);
    float* slots = (float*)(arena + 0);
    int lane = threadIdx.x % 32;
    for (int i = 0; i < tiles * 8; ++i) {
        int s = i % 2;
        if (threadIdx.x < 32) {
            if (i >= 2) tile::bar_sync(TILE_SYNC(0), 3 + s, 64);
            slots[s * 32 + lane] = A[i * 32 + lane];
            tile::bar_arrive(TILE_SYNC(1), 1 + s, 64);  // @arrive
#ifdef PLANTED
            tile::bar_arrive(TILE_SYNC(2), 1 + s, 64);  // @again
#endif
        } else {
            tile::bar_sync(TILE_SYNC(3), 1 + s, 64);
            B[i * 32 + lane] = slots[s * 32 + lane] * 2;
            if (i + 2 < tiles * 8) tile::bar_arrive(TILE_SYNC(4), 3 + s, 64);
        }
    }
}
