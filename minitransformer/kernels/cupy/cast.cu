// From the type that parameters and sums have to the type of activations: y = factor * x.
//
// add: 1 adds to what is in y, which then has the type of sums
// factor: a scalar on the device, or null for 1   Threads: one for each group of eight adjacent values; 256 per block.
extern "C" __global__ void cast(const ACC *x, const ACC *factor, T *y, long long n, long long add,
                                long long whole) {
    ACC by = factor ? *factor : (ACC)1, values[8];
    long long start = 8 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
    if (start >= n) return;
    load8(values, x, start, n, whole);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] *= by;
    if (add) {
        ACC old[8];
        load8(old, y, start, n, whole);
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] += old[i];
    }
    store8(y, values, start, n, whole);
}
