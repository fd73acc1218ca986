// The last tile is short; what lies behind its end is read without having been filled.
extern "C" __global__ void __launch_bounds__(64) uninitialised_tail(const float* A, float* B, int tiles) {
    TILE_SHARED(arena, 320);
    float* row = (float*)(arena + 0);
    int t = threadIdx.x;
    for (int i = 0; i < tiles * 4; ++i) {
        row[t] = A[i * 64 + t];
#ifndef PLANTED
        if (t < 16) row[64 + t] = 0;
#endif
        tile::sync_threads(TILE_SYNC(0));
        float next = row[t + 16];  // @use
        B[i * 64 + t] = row[t] * 2 + next * 0;
        tile::sync_threads(TILE_SYNC(1));
    }
}
