// What is computed between the two products of the feed-forward network, and after the second.
//
// Threads: one for each group of eight adjacent values of a row; 256 to a block; as many blocks as it takes, but for
// relu_dropout_backward.

// hidden = Dropout(max(0, hidden + bias)), in place
extern "C" __global__ void bias_relu_dropout(T *hidden, const ACC *bias, long long n_rows, long long width,
                                             long long whole, DROPOUT_ARGUMENTS) {
    long long groups = (width + 7) / 8, group = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (group >= n_rows * groups) return;
    long long row = group / groups, column = 8 * (group % groups);
    ACC values[8], shift[8];
    load8(values, hidden + row * width, column, width, whole);
    load8(shift, bias, column, width, whole);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        ACC value = values[i] + shift[i];
        values[i] = value > 0 ? value : (value == value ? (ACC)0 : value);  // NaN stays NaN
    }
    drop8(values, DROPOUT, row, column);
    store8(hidden + row * width, values, column, width, whole);
}

// grad = grad / (1 - p_drop) where active > 0, else 0, in place. A dropped value is not above 0: no draw is needed.
// parts: (gridDim.y, width), the sums over rows of the result, which are added up afterwards: the gradient of the bias
//
// Threads: a block of 32 x 8 works on 256 columns: thread (i, j) on the i-th group of eight in every (8 gridDim.y)-th
// row. Then the first row of threads adds the eight sums of its columns. One writer for each value, in a fixed order.
extern "C" __global__ void relu_dropout_backward(T *grad, const T *active, ACC *parts, long long n_rows,
                                                 long long width, long long whole, double factor) {
    __shared__ ACC sums[8][256];
    long long column = 8 * (blockIdx.x * 32ll + threadIdx.x);
    ACC sum[8] = {}, values[8], output[8];
    for (long long row = blockIdx.y * 8ll + threadIdx.y; row < n_rows; row += gridDim.y * 8ll) {
        load8(values, grad + row * width, column, width, whole);
        load8(output, active + row * width, column, width, whole);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            values[i] = output[i] > 0 ? values[i] * (ACC)factor : (ACC)0;
            sum[i] += values[i];
        }
        store8(grad + row * width, values, column, width, whole);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[threadIdx.y][32 * i + threadIdx.x] = sum[i];
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (int j = 1; j < 8; ++j)
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += sums[j][32 * i + threadIdx.x];
    store8(parts + blockIdx.y * width, sum, column, width, whole);
}

// y = y + bias, in place
extern "C" __global__ void add_bias(T *y, const ACC *bias, long long n_rows, long long width, long long whole) {
    long long groups = (width + 7) / 8, group = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (group >= n_rows * groups) return;
    long long row = group / groups, column = 8 * (group % groups);
    ACC values[8], shift[8];
    load8(values, y + row * width, column, width, whole);
    load8(shift, bias, column, width, whole);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] += shift[i];
    store8(y + row * width, values, column, width, whole);
}
