// Token ids to vectors, with positions and dropout; and the scatter-add of their gradient into the table.

// y[row] = Dropout(scale * table[ids[row]] + positions[row mod n_positions]); positions may be null
//
// Threads: one for each group of eight adjacent columns of a row; 256 to a block.
extern "C" __global__ void embed(const ACC *table, const long long *ids, const ACC *positions, T *y, long long n_rows,
                                 long long width, long long n_positions, double scale, long long whole,
                                 DROPOUT_ARGUMENTS) {
    long long groups = (width + 7) / 8, group = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (group >= n_rows * groups) return;
    long long row = group / groups, column = 8 * (group % groups);
    ACC values[8], position[8];
    load8(values, table + ids[row] * width, column, width, whole);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] *= (ACC)scale;
    if (positions) {
        load8(position, positions + row % n_positions * width, column, width, whole);
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] += position[i];
    }
    drop8(values, DROPOUT, row, column);
    store8(y + row * width, values, column, width, whole);
}

// grad_table[token] = scale * sum of grad[order[i]] over i in starts[token] .. starts[token + 1] - 1
//
// order: rows of grad sorted by token, so that those of one token are adjacent   starts: (V + 1,), where each begins
// Threads: a block of 32 x 16 works on one row of the table, 32 columns at a time: thread (i, j) adds every 16th row
// of column i; then the first row of threads adds the 16 sums. One writer for each value, in a fixed order.
extern "C" __global__ void scatter_add(const T *grad, const long long *order, const long long *starts, ACC *grad_table,
                                       long long width, double scale) {
    __shared__ ACC sums[16][32];
    long long token = blockIdx.x, begin = starts[token], end = starts[token + 1];
    for (long long tile = 0; tile < width; tile += 32) {
        long long column = tile + threadIdx.x;
        ACC sum = 0;
        if (column < width)
            for (long long i = begin + threadIdx.y; i < end; i += 16)
                sum += value_of(grad[order[i] * width + column]);
        sums[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && column < width) {
            sum = 0;
            for (int j = 0; j < 16; ++j) sum += sums[j][threadIdx.x];
            grad_table[token * width + column] = (ACC)scale * sum;
        }
        __syncthreads();  // before the next tile overwrites the sums
    }
}
