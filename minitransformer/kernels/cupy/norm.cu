// Layer norm, alone or after a residual sum with dropout, and its gradient.
//
//   total = x + Dropout(sublayer)                       (total = x without a sublayer)
//   x_hat = (total - mean(total)) / sqrt(var(total) + eps)
//   y     = gamma * x_hat + beta
//
// Threads: blockDim.x of them work on a row, thread t on groups t, t + blockDim.x, ... of eight columns each. A thread
// keeps its values in registers from the first pass to the last (GROUPS of them, a compile-time constant; 1 up to 4,096
// columns), so every value is read once and written once. The bound of 512 threads keeps a thread at 128 registers at
// most. Forward has a block for each row; in backward a block of several warps works on blockDim.y rows at a time.

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
// Each block leaves its own sums for gamma and beta in a row of parts, (gridDim.x, 2 * width). They are added up
// afterwards in a fixed order: no atomics. grad_sublayer may be null: then it is grad_x.

// The sums of both values over the threads of a row; shown has room for those of 32 warps.
__device__ inline void row_sums(ACC &one, ACC &other, ACC (*shown)[32]) {
    one = warp_sum(one), other = warp_sum(other);
    int warps = blockDim.x / 32, first = threadIdx.y * warps;
    if (threadIdx.x % 32 == 0) {
        shown[0][first + threadIdx.x / 32] = one;
        shown[1][first + threadIdx.x / 32] = other;
    }
    __syncthreads();
    one = other = 0;
    for (int warp = first; warp < first + warps; ++warp) one += shown[0][warp], other += shown[1][warp];
}

extern "C" __global__ void __launch_bounds__(512)
norm_backward(const T *grad_y, const T *x_hat, const ACC *inv_std, const ACC *gamma, T *grad_x, T *grad_sublayer,
              ACC *parts, long long n_rows, long long width, long long whole, DROPOUT_ARGUMENTS) {
    __shared__ ACC shown[2][2][32];  // used in turn: one barrier for each row is enough
    ACC for_gamma[GROUPS][8] = {}, for_beta[GROUPS][8] = {};
    int turn = 0;
    long long stride = (long long)gridDim.x * blockDim.y;
    for (long long first = (long long)blockIdx.x * blockDim.y; first < n_rows; first += stride) {
        long long row = first + threadIdx.y, start = row * width;
        long long length = row < n_rows ? width : 0;  // beyond the last row: the threads only wait with the others
        ACC grad[GROUPS][8], hat[GROUPS][8], sum = 0, product = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            long long column = 8 * (threadIdx.x + (long long)g * blockDim.x);
            ACC scale[8];
            load8(grad[g], grad_y + start, column, length, whole);
            load8(hat[g], x_hat + start, column, length, whole);
            load8(scale, gamma, column, length, whole);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                for_gamma[g][i] += grad[g][i] * hat[g][i];
                for_beta[g][i] += grad[g][i];
                grad[g][i] *= scale[i];
                sum += grad[g][i];
                product += grad[g][i] * hat[g][i];
            }
        }
        row_sums(sum, product, shown[turn]);
        turn = 1 - turn;
        ACC mean = sum / (ACC)width, mean_product = product / (ACC)width, inverse = length ? inv_std[row] : (ACC)0;
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            long long column = 8 * (threadIdx.x + (long long)g * blockDim.x);
#pragma unroll
            for (int i = 0; i < 8; ++i) grad[g][i] = inverse * (grad[g][i] - mean - hat[g][i] * mean_product);
            if (grad_sublayer) {
                ACC dropped[8];
#pragma unroll
                for (int i = 0; i < 8; ++i) dropped[i] = grad[g][i];
                drop8(dropped, DROPOUT, row, column);
                store8(grad_sublayer + start, dropped, column, length, whole);
            }
            store8(grad_x + start, grad[g], column, length, whole);
        }
    }
    if (blockDim.y > 1) {  // the rows' sums, one after the other; GROUPS is 1, and a row has at most 128 threads
        __shared__ ACC sums[2][1024];
        for (int y = 0; y < blockDim.y; ++y) {
            if (threadIdx.y == y)
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    int column = 8 * threadIdx.x + i;
                    for_gamma[0][i] = sums[0][column] = for_gamma[0][i] + (y ? sums[0][column] : (ACC)0);
                    for_beta[0][i] = sums[1][column] = for_beta[0][i] + (y ? sums[1][column] : (ACC)0);
                }
            __syncthreads();
        }
        if (threadIdx.y < blockDim.y - 1) return;
    }
    ACC *own = parts + blockIdx.x * 2 * width;
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        long long column = 8 * (threadIdx.x + (long long)g * blockDim.x);
        store8(own, for_gamma[g], column, width, whole);
        store8(own + width, for_beta[g], column, width, whole);
    }
}
