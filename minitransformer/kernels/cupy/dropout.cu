// Dropout with counter-based random numbers, the residual sum around it, and its mask as an array.
//
// Threads: one for each group of eight adjacent values of a row; 256 to a block; as many blocks as it takes.

// y = x + sublayer * keep / (1 - p_drop); without x (a null pointer) the second term alone
extern "C" __global__ void residual_dropout(const T *x, const T *sublayer, T *y, long long n_rows, long long width,
                                            long long whole, DROPOUT_ARGUMENTS) {
    long long groups = (width + 7) / 8, group = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (group >= n_rows * groups) return;
    long long row = group / groups, column = 8 * (group % groups);
    ACC values[8], sum[8];
    load8(values, sublayer + row * width, column, width, whole);
    drop8(values, DROPOUT, row, column);
    if (x) {
        load8(sum, x + row * width, column, width, whole);
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] += sum[i];
    }
    store8(y + row * width, values, column, width, whole);
}

// keep[row, column] = 1 where a value stays, else 0
extern "C" __global__ void keep_mask(unsigned char *keep, long long n_rows, long long width, DROPOUT_ARGUMENTS) {
    long long groups = (width + 7) / 8, group = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (group >= n_rows * groups) return;
    long long row = group / groups, column = 8 * (group % groups);
    ACC values[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    drop8(values, DROPOUT, row, column);
    for (int i = 0; i < 8; ++i)
        if (column + i < width) keep[row * width + column + i] = values[i] != 0;
}
