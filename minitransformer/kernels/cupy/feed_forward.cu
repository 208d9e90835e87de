// What is computed between the two products of the feed-forward network, and after the second.
//
// Threads: one for each group of eight adjacent values of a row; 256 to a block; as many blocks as it takes.

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
extern "C" __global__ void relu_dropout_backward(T *grad, const T *active, long long n_rows, long long width,
                                                 long long whole, double factor) {
    long long groups = (width + 7) / 8, group = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (group >= n_rows * groups) return;
    long long row = group / groups, column = 8 * (group % groups);
    ACC values[8], output[8];
    load8(values, grad + row * width, column, width, whole);
    load8(output, active + row * width, column, width, whole);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = output[i] > 0 ? values[i] * (ACC)factor : (ACC)0;
    store8(grad + row * width, values, column, width, whole);
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
