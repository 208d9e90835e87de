// Label-smoothed cross-entropy of a chunk of logits and its gradient.
//
//   p     = softmax(logits),   q = (1 - eps) onehot(target) + eps / V
//   loss  = ln Z - (1 - eps) logit_target - eps mean(logits),   nll = ln Z - logit_target,   Z = sum_v exp(logit_v)
//   grad  = (p - q) * grad_scale; all are zero where the target is padding
//
// Threads: a block of 256 works on a row of V logits. First pass: each thread keeps the largest value it has seen and
// the sum of exponentials below it; second pass: the gradient. The second time the row comes mostly from the cache.

// Of logits beyond LARGE too few digits would be left in the differences: their maximum is taken away from them first.
#define LARGE ((ACC)1e3)

// losses: (n_rows, 2), loss and nll of each row, in double precision   grad: (n_rows, V), null if it is not needed
extern "C" __global__ void cross_entropy(const ACC *logits, const long long *targets, double *losses, T *grad,
                                         long long vocab_size, double smoothing, long long pad_id, double grad_scale) {
    __shared__ ACC maxima[32];
    long long row = blockIdx.x, target = targets[row];
    const ACC *from = logits + row * vocab_size;
    bool real = target != pad_id;

    ACC largest = -INFINITE, sum = 0, plain = 0;
    bool has_nan = false;  // no comparison finds it
    for (long long v = threadIdx.x; v < vocab_size; v += blockDim.x) {
        ACC logit = from[v];
        plain += logit;
        has_nan |= !(logit == logit);
        if (logit > largest) {
            sum = sum * exp(largest - logit) + (ACC)1;
            largest = logit;
        } else {
            sum += exp(logit - largest);
        }
    }
    ACC highest = warp_max(largest);
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = highest;
    __syncthreads();
    for (int warp = 0; warp < blockDim.x / 32; ++warp) highest = maxima[warp] > highest ? maxima[warp] : highest;
    sum = largest == -INFINITE ? (ACC)0 : sum * exp(largest - highest);  // a thread without a logit has no sum
    sum = block_sum(has_nan ? NOT_A_NUMBER : sum);
    plain = block_sum(plain);
    ACC mean = plain / (ACC)vocab_size, removed = 0;
    if (!(fabs(highest) + fabs(mean) < LARGE)) {  // the same in all threads of the block
        removed = highest;
        plain = 0;
        for (long long v = threadIdx.x; v < vocab_size; v += blockDim.x) plain += from[v] - removed;
        mean = block_sum(plain) / (ACC)vocab_size;
    }
    ACC log_z = log(sum) + (highest - removed);
    if (threadIdx.x == 0) {
        ACC nll = log_z - (from[target] - removed);
        ACC uniform = log_z - mean;
        losses[2 * row] = real ? (double)((1 - (ACC)smoothing) * nll + (ACC)smoothing * uniform) : 0.0;
        losses[2 * row + 1] = real ? (double)nll : 0.0;
    }
    if (!grad) return;
    __syncthreads();  // grad may overwrite the logits: the target's must have been read
    ACC spread = (ACC)(smoothing / (double)vocab_size);
    for (long long v = threadIdx.x; v < vocab_size; v += blockDim.x) {
        ACC value = exp(from[v] - removed - log_z) - spread;
        if (v == target) value -= (ACC)(1.0 - smoothing);
        put(grad + row * vocab_size + v, real ? value * (ACC)grad_scale : (ACC)0);
    }
}
