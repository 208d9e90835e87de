// The sum of each column of a matrix: gradients of biases, and the second half of other sums.
//
//   y[part, column] = sum of x[row, column] over the rows of the part
//
// Threads: a block of 32 x 32 works on 32 columns of one part: thread (i, j) on rows j, j + 32, ... of column i. Then
// the first row of threads adds the 32 sums of its column, one after the other: always in the same order, no atomics.

extern "C" __global__ void sum_rows(const T *x, ACC *y, long long n_rows, long long width, long long rows_of_a_part) {
    __shared__ ACC sums[32][33];  // one wider than a row, so that neighbours lie in different banks
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
