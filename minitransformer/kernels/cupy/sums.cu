// Sums in a fixed order, without atomics: over the rows of a matrix, and of all squares of a vector.
//
//   y[part, column] = sum of x[row, column] over the rows of the part
//
// Threads: a block of 32 x 32 works on 32 columns of one part: thread (i, j) on rows j, j + 32, ... of column i. Then
// the first row of threads adds the 32 sums of its column, one after the other: always in the same order, no atomics.

extern "C" __global__ void sum_rows(const T *x, ACC *y, long long n_rows, long long width,
                                    long long rows_of_a_part) {
    __shared__ ACC sums[32][33];  // one wider than a row, so that adjacent rows are in different banks
    long long column = blockIdx.x * 32ll + threadIdx.x;
    long long first = blockIdx.y * rows_of_a_part + threadIdx.y;
    long long end = (blockIdx.y + 1) * rows_of_a_part;
    if (end > n_rows) end = n_rows;
    ACC sum = 0;
    if (column < width)
        for (long long row = first; row < end; row += 32) sum += value_of(x[row * width + column]);
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        sum = 0;
        for (int j = 0; j < 32; ++j) sum += sums[j][threadIdx.x];
        y[blockIdx.y * width + column] = sum;
    }
}

// parts[b] = sum of x[i]^2 over what block b works on, in double precision
//
// Threads: thread t of the gridDim.x * blockDim.x takes every value at that stride; each block then sums its own.
extern "C" __global__ void sum_squares(const T *x, double *parts, long long n) {
    __shared__ double sums[256];
    long long stride = (long long)gridDim.x * blockDim.x;
    double sum = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) {
        double value = value_of(x[i]);
        sum += value * value;
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = sums[0];
}
