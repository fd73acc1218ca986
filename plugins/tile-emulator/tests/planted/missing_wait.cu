// A thread uses what it has copied itself, and never waits.
extern "C" __global__ void __launch_bounds__(64) missing_wait(const float* A, float* B, int tiles) {
    TILE_SHARED(arena, 1024);
    float* tile_ = (float*)(arena + 0);
    int t = threadIdx.x;
    for (int i = 0; i < tiles; ++i) {
        tile::cp_async<16>(tile_ + 4 * t, A + i * 256 + 4 * t);  // @copy
        tile::cp_async_commit();
#ifndef PLANTED
        tile::cp_async_wait<0>(TILE_SYNC(0));
#endif
        for (int j = 0; j < 4; ++j) {
            B[i * 256 + 4 * t + j] = tile_[4 * t + j] * 2;  // @use
        }
    }
}
