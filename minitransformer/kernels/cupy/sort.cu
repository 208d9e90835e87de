// The order that sorts numbers: a radix sort by digits of eight bits, the lowest first  [Knuth, vol. 3, sec. 5.2.5].
//
// A pass over one digit is three kernels. order is what the pass before has found; null: as the numbers stand.
// Threads: 256 to a block, one for each digit; a block has a tile of TILE numbers. Each thread goes through the whole
// tile for its own digit, so that nothing is atomic and numbers with equal digits keep their order.
#define TILE 512
#define DIGITS 256

__device__ inline long long index_of(const long long *order, long long place) { return order ? order[place] : place; }

// The digits of the block's tile; returns how many numbers it has.
__device__ inline int read_digits(unsigned char *digits, const long long *numbers, const long long *order, long long n,
                                  long long shift) {
    long long first = (long long)blockIdx.x * TILE, size = n - first < TILE ? n - first : TILE;
    for (long long i = threadIdx.x; i < size; i += DIGITS)
        digits[i] = (unsigned char)(numbers[index_of(order, first + i)] >> shift & 255);
    __syncthreads();
    return (int)size;
}

// counts[tile, digit] = how many numbers of the tile have the digit
extern "C" __global__ void count_digits(const long long *numbers, const long long *order, long long *counts,
                                        long long n, long long shift) {
    __shared__ unsigned char digits[TILE];
    int size = read_digits(digits, numbers, order, n, shift), count = 0;
    for (int i = 0; i < size; ++i) count += digits[i] == threadIdx.x;
    counts[(long long)blockIdx.x * DIGITS + threadIdx.x] = count;
}

// counts[tile, digit] = how many numbers have the digit in earlier tiles; in a last row, how many have lower digits
extern "C" __global__ void sum_counts(long long *counts, long long tiles) {
    __shared__ long long totals[DIGITS];
    long long total = 0, lower = 0;
#pragma unroll 8
    for (long long tile = 0; tile < tiles; ++tile) {
        long long count = counts[tile * DIGITS + threadIdx.x];
        counts[tile * DIGITS + threadIdx.x] = total;
        total += count;
    }
    totals[threadIdx.x] = total;
    __syncthreads();
    for (int digit = 0; digit < threadIdx.x; ++digit) lower += totals[digit];
    counts[tiles * DIGITS + threadIdx.x] = lower;
}

// sorted[place] = index of the number that belongs there
extern "C" __global__ void place_numbers(const long long *numbers, const long long *order, const long long *counts,
                                         long long *sorted, long long n, long long shift) {
    __shared__ unsigned char digits[TILE];
    int size = read_digits(digits, numbers, order, n, shift);
    long long first = (long long)blockIdx.x * TILE;
    long long place = counts[(long long)blockIdx.x * DIGITS + threadIdx.x] + counts[gridDim.x * DIGITS + threadIdx.x];
    for (int i = 0; i < size; ++i)
        if (digits[i] == threadIdx.x) sorted[place++] = index_of(order, first + i);
}
