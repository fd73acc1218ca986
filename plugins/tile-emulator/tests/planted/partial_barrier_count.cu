// Two of four warps meet at barrier 1; the count says three.
#ifdef PLANTED
#define COUNT 96
#else
#define COUNT 64
#endif
extern "C" __global__ void __launch_bounds__(128) partial_barrier_count(const float* A, float* B, int tiles) {
    TILE_SHARED(arena, 256);
    float* half = (float*)(arena + 0);
    int t = threadIdx.x;
    for (int i = 0; i < tiles * 4; ++i) {
        if (t < 64) {
            half[t] = A[i * 64 + t];
            tile::bar_sync(TILE_SYNC(0), 1, COUNT);  // @barrier
            B[i * 64 + t] = half[t ^ 1] * 0 + A[i * 64 + t] * 2;
        }
        tile::sync_threads(TILE_SYNC(1));
    }
}
