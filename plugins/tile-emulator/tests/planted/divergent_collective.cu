// Half the warp takes part in a shuffle whose mask names all lanes.
#ifdef PLANTED
#define TAKES_PART(t) ((t) % 32 < 16)
#else
#define TAKES_PART(t) true
#endif
extern "C" __global__ void __launch_bounds__(64) divergent_collective(const float* A, float* B, int tiles) {
    int t = threadIdx.x;
    for (int i = 0; i < tiles * 4; ++i) {
        float value = A[i * 64 + t];
        if (TAKES_PART(t)) {
            value += tile::shfl_xor(value, 0);  // @shuffle
        }
        B[i * 64 + t] = value;
    }
}
