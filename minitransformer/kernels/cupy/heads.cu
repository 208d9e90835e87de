// Packed projections to separate heads, and back: values are moved, nothing is computed.
//
//   heads[b, h, t, i]  <->  packed[b, t, start + h * width + i]
//
// Widths, starts and rows are counted in units of UNIT bytes (2, 4, 8 or 16, a compile-time constant): the largest unit
// that divides them all, whatever the values in it are.
// Threads: one for each unit of the heads; 256 to a block.

#if UNIT == 16
struct alignas(16) Unit {
    unsigned long long low, high;
};
#elif UNIT == 8
typedef unsigned long long Unit;
#elif UNIT == 4
typedef unsigned int Unit;
#else
typedef unsigned short Unit;
#endif

// The index in packed, (B, T, row), of unit i of the heads, (B, H, T, width)
__device__ inline long long packed_index(long long i, long long n_heads, long long length, long long width,
                                         long long row, long long start) {
    long long within = i % width, t = i / width % length, h = i / width / length % n_heads;
    long long b = i / width / length / n_heads;
    return (b * length + t) * row + start + h * width + within;
}

extern "C" __global__ void split_heads(const Unit *packed, Unit *heads, long long n, long long n_heads,
                                       long long length, long long width, long long row, long long start) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) heads[i] = packed[packed_index(i, n_heads, length, width, row, start)];
}

extern "C" __global__ void merge_heads(const Unit *heads, Unit *packed, long long n, long long n_heads,
                                       long long length, long long width, long long row, long long start) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) packed[packed_index(i, n_heads, length, width, row, start)] = heads[i];
}
