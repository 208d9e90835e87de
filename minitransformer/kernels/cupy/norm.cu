// Layer norm, alone or after a residual sum with dropout, and its gradient.
//
//   total = x + Dropout(sublayer)                       (total = x without a sublayer)
//   x_hat = (total - mean(total)) / sqrt(var(total) + eps)
//   y     = gamma * x_hat + beta
//
// Threads: a block works on a row, thread t on groups t, t + blockDim.x, ... of eight columns each. A thread keeps its
// values in registers from the first pass to the last (GROUPS of them, a compile-time constant; 1 up to 4,096 columns),
// so every value is read once and written once. The bound of 512 threads keeps a thread at 128 registers at most.

extern "C" __global__ void __launch_bounds__(512)
norm_forward(const T *x, const T *sublayer, const ACC *gamma, const ACC *beta, T *y, T *x_hat, ACC *inv_std,
             long long width, double eps, long long whole, DROPOUT_ARGUMENTS) {
    long long row = blockIdx.x, start = row * width;
    ACC total[GROUPS][8], other[8], sum = 0;
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        long long column = 8 * (threadIdx.x + (long long)g * blockDim.x);
        load8(total[g], x + start, column, width, whole);
        if (sublayer) {
            load8(other, sublayer + start, column, width, whole);
            drop8(other, DROPOUT, row, column);
#pragma unroll
            for (int i = 0; i < 8; ++i) total[g][i] += other[i];
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += total[g][i];  // zeros beyond the end of the row
    }
    ACC mean = block_sum(sum) / (ACC)width;

    ACC squares = 0;
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        long long column = 8 * (threadIdx.x + (long long)g * blockDim.x);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            total[g][i] = column + i < width ? total[g][i] - mean : (ACC)0;
            squares += total[g][i] * total[g][i];
        }
    }
    ACC inverse = (ACC)1 / sqrt(block_sum(squares) / (ACC)width + (ACC)eps);
    if (threadIdx.x == 0) inv_std[row] = inverse;

#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        long long column = 8 * (threadIdx.x + (long long)g * blockDim.x);
        ACC scale[8], shift[8];
        load8(scale, gamma, column, width, whole);
        load8(shift, beta, column, width, whole);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            total[g][i] *= inverse;
            shift[i] += scale[i] * total[g][i];
        }
        store8(x_hat + start, total[g], column, width, whole);
        store8(y + start, shift, column, width, whole);
    }
}

//   g         = gamma * grad_y
//   grad_x    = inv_std * (g - mean(g) - x_hat * mean(g * x_hat));   grad_sublayer = Dropout'(grad_x)
//   grad_gamma = sum over rows of grad_y * x_hat,   grad_beta = sum over rows of grad_y
//
// Block b works on rows b, b + gridDim.x, ... and leaves its own sums for gamma and beta in row b of parts, (gridDim.x,
// 2 * width). They are added up afterwards in a fixed order: no atomics. grad_sublayer may be null: then it is grad_x.
extern "C" __global__ void __launch_bounds__(512)
norm_backward(const T *grad_y, const T *x_hat, const ACC *inv_std, const ACC *gamma, T *grad_x, T *grad_sublayer,
              ACC *parts, long long n_rows, long long width, long long whole, DROPOUT_ARGUMENTS) {
    ACC for_gamma[GROUPS][8] = {}, for_beta[GROUPS][8] = {};
    for (long long row = blockIdx.x; row < n_rows; row += gridDim.x) {
        long long start = row * width;
        ACC grad[GROUPS][8], hat[GROUPS][8], sum = 0, product = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            long long column = 8 * (threadIdx.x + (long long)g * blockDim.x);
            ACC scale[8];
            load8(grad[g], grad_y + start, column, width, whole);
            load8(hat[g], x_hat + start, column, width, whole);
            load8(scale, gamma, column, width, whole);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                for_gamma[g][i] += grad[g][i] * hat[g][i];
                for_beta[g][i] += grad[g][i];
                grad[g][i] *= scale[i];
                sum += grad[g][i];
                product += grad[g][i] * hat[g][i];
            }
        }
        ACC mean = block_sum(sum) / (ACC)width, mean_product = block_sum(product) / (ACC)width;
        ACC inverse = inv_std[row];
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            long long column = 8 * (threadIdx.x + (long long)g * blockDim.x);
#pragma unroll
            for (int i = 0; i < 8; ++i) grad[g][i] = inverse * (grad[g][i] - mean - hat[g][i] * mean_product);
            store8(grad_x + start, grad[g], column, width, whole);
            if (grad_sublayer) {
                drop8(grad[g], DROPOUT, row, column);
                store8(grad_sublayer + start, grad[g], column, width, whole);
            }
        }
    }
    ACC *own = parts + blockIdx.x * 2 * width;
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        long long column = 8 * (threadIdx.x + (long long)g * blockDim.x);
        store8(own, for_gamma[g], column, width, whole);
        store8(own + width, for_beta[g], column, width, whole);
    }
}
