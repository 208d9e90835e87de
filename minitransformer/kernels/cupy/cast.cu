// From the type that parameters and sums have to the type of activations: y = factor * x.
//
// factor: a scalar on the device, or null for 1   Threads: one for each group of eight adjacent values; 256 per block.
extern "C" __global__ void cast(const ACC *x, const ACC *factor, T *y, long long n, long long whole) {
    ACC by = factor ? *factor : (ACC)1, values[8];
    long long start = 8 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
    if (start >= n) return;
    load8(values, x, start, n, whole);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] *= by;
    store8(y, values, start, n, whole);
}
