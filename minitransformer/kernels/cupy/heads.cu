// Projections side by side to heads one after the other, and back: values move, nothing is computed.
//
//   heads[b, h, t, i]  <->  packed[b, t, start + h * width + i]
//
// Widths, starts and rows are counted in units of UNIT bytes (2, 4, 8 or 16, given from outside): the largest word that
// divides them all, whatever the values in it are.
// Threads: one for each unit of the heads; 256 to a block.

#if UNIT == 16
struct alignas(16) Word {
    unsigned long long low, high;
};
#elif UNIT == 8
typedef unsigned long long Word;
#elif UNIT == 4
typedef unsigned int Word;
#else
typedef unsigned short Word;
#endif

// Where unit i of the heads, (B, H, T, width), lies in packed, (B, T, row)
__device__ inline long long packed_place(long long i, long long n_heads, long long length, long long width,
                                         long long row, long long start) {
    long long within = i % width, t = i / width % length, h = i / width / length % n_heads;
    long long b = i / width / length / n_heads;
    return (b * length + t) * row + start + h * width + within;
}

extern "C" __global__ void split_heads(const Word *packed, Word *heads, long long n, long long n_heads,
                                       long long length, long long width, long long row, long long start) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) heads[i] = packed[packed_place(i, n_heads, length, width, row, start)];
}

extern "C" __global__ void merge_heads(const Word *heads, Word *packed, long long n, long long n_heads,
                                       long long length, long long width, long long row, long long start) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) packed[packed_place(i, n_heads, length, width, row, start)] = heads[i];
}
