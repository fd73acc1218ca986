// Two tiles live at once, and the arena's plan lets them share half their bytes.
#ifdef PLANTED
#define SECOND 128
#else
#define SECOND 256
#endif
extern "C" __global__ void __launch_bounds__(64) aliased_arena(const float* A, float* B, int tiles) {
    TILE_SHARED(arena, 512);
    float* left = (float*)(arena + 0);
    float* right = (float*)(arena + SECOND);
    int t = threadIdx.x;
    for (int i = 0; i < tiles * 4; ++i) {
        left[t] = A[i * 64 + t];
        tile::sync_threads(TILE_SYNC(0));
        right[t] = A[i * 64 + t] * 3;  // @overwrite
        tile::sync_threads(TILE_SYNC(1));
        float a = left[63 - t];  // @use
        float b = right[63 - t];
        B[i * 64 + 63 - t] = b - a;
        tile::sync_threads(TILE_SYNC(2));
    }
}
