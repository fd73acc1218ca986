// The copy of the last tile goes one row further than the tensor.
#ifdef PLANTED
#define INSIDE(place, end) true
#else
#define INSIDE(place, end) ((place) < (end))
#endif
extern "C" __global__ void __launch_bounds__(64) out_of_bounds(const float* A, float* B, int tiles) {
    TILE_SHARED(arena, 1280);
    float* rows = (float*)(arena + 0);
    int t = threadIdx.x;
    for (int i = 0; i < tiles; ++i) {
        for (int j = 0; j < 5; ++j) {
            int place = i * 256 + j * 64 + t;
            rows[j * 64 + t] = 0;
            if (INSIDE(place, tiles * 256)) {
                rows[j * 64 + t] = A[place];  // @copy
            }
        }
        for (int j = 0; j < 4; ++j) B[i * 256 + j * 64 + t] = rows[j * 64 + t] * 2;
    }
}
