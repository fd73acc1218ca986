// Three stages in flight; the wait must leave one group of copies pending, and leaves two.
extern "C" __global__ void __launch_bounds__(64) wait_group_off_by_one(const float* A, float* B, int tiles) {
    TILE_SHARED(arena, 3 * 1024);
    float* ring = (float*)(arena + 0);
    int t = threadIdx.x;
    for (int i = 0; i < tiles + 2; ++i) {
        if (i >= 2) {
#ifdef PLANTED
            tile::cp_async_wait<2>(TILE_SYNC(0));
#else
            tile::cp_async_wait<1>(TILE_SYNC(0));
#endif
            tile::sync_threads(TILE_SYNC(1));
            for (int j = 0; j < 4; ++j) {
                B[(i - 2) * 256 + j * 64 + t] = ring[(i - 2) % 3 * 256 + j * 64 + t] * 2;  // @use
            }
        }
        tile::sync_threads(TILE_SYNC(2));
        if (i < tiles) {
            tile::cp_async<16>(ring + i % 3 * 256 + 4 * t, A + i * 256 + 4 * t);  // @copy
        }
        tile::cp_async_commit();
    }
}
