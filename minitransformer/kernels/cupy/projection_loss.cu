// Label-smoothed cross-entropy of a chunk of logits and its gradient, which is written over them.
//
//   p     = softmax(logits),   q = (1 - eps) onehot(target) + eps / V
//   loss  = ln Z - (1 - eps) logit_target - eps mean(logits),   nll = ln Z - logit_target,   Z = sum_v exp(logit_v)
//   grad  = (p - q) * grad_scale; all are zero where the target is padding
//
// Threads: a block of 512 works on a row of V logits, thread t on groups t, t + 512, ... of eight adjacent ones. First
// pass: each thread keeps the largest value it has seen and the sum of exponentials below it; second pass: the
// gradient. The second time the row comes mostly from the cache. Rows begin at multiples of pitch, which eight divides:
// only the last group of a row may be partial.

// Of logits beyond LARGE too few digits would be left in the differences: their maximum is taken away from them first.
#define LARGE ((ACC)1e3)

// losses: (n_rows, 2), loss and nll of each row, in double precision   with_grad: 0 leaves the logits as they are
extern "C" __global__ void __launch_bounds__(512)
cross_entropy(T *logits, const long long *targets, double *losses, long long vocab_size, long long pitch,
              double smoothing, long long pad_id, long long with_grad, double grad_scale) {
    __shared__ ACC maxima[32];
    long long row = blockIdx.x, target = targets[row];
    int width = vocab_size, stride = 8 * blockDim.x;
    T *own = logits + row * pitch;
    bool real = target != pad_id;

    ACC values[8], largest = -INFINITE, sum = 0, plain = 0;
#pragma unroll 2
    for (int start = 8 * threadIdx.x; start < width; start += stride) {
        bool whole = start + 8 <= width;
        load8(values, own, start, width, whole);
#pragma unroll
        for (int i = 0; i < 8; ++i) plain += values[i];  // zero beyond the end of the row
        if (!whole)
#pragma unroll
            for (int i = 0; i < 8; ++i) values[i] = start + i < width ? values[i] : -INFINITE;
        ACC before = largest;
#pragma unroll
        for (int i = 0; i < 8; ++i) largest = values[i] > largest ? values[i] : largest;
        ACC shift = largest == -INFINITE ? (ACC)0 : largest;  // -inf - -inf would be NaN
        sum *= exp(before - shift);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += exp(values[i] - shift);  // NaN stays NaN
    }
    ACC highest = warp_max(largest);
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = highest;
    __syncthreads();
    for (int warp = 0; warp < blockDim.x / 32; ++warp) highest = maxima[warp] > highest ? maxima[warp] : highest;
    sum = block_sum(largest == -INFINITE ? sum : sum * exp(largest - highest));  // without a logit it is 0 already
    plain = block_sum(plain);
    ACC mean = plain / (ACC)vocab_size, removed = 0;
    if (!(fabs(highest) + fabs(mean) < LARGE)) {  // the same in all threads of the block
        removed = highest;
        plain = 0;
        for (long long v = threadIdx.x; v < vocab_size; v += blockDim.x) plain += value_of(own[v]) - removed;
        mean = block_sum(plain) / (ACC)vocab_size;
    }
    ACC log_z = log(sum) + (highest - removed);
    ACC nll = log_z - (value_of(own[target]) - removed);
    if (threadIdx.x == 0) {
        ACC loss = nll;
        if (smoothing > 0)  // beside a logit of -inf the product with 0 would be NaN
            loss = (1 - (ACC)smoothing) * nll + (ACC)smoothing * (log_z - mean);
        losses[2 * row] = real ? (double)loss : 0.0;
        losses[2 * row + 1] = real ? (double)nll : 0.0;
    }
    if (!with_grad) return;
    __syncthreads();  // the target's logit must have been read before the gradient is written over it
    ACC spread = (ACC)(smoothing / (double)vocab_size);
#pragma unroll 2
    for (int start = 8 * threadIdx.x; start < width; start += stride) {
        bool whole = start + 8 <= width;
        load8(values, own, start, width, whole);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            ACC value = (exp(values[i] - removed - log_z) - spread) * (ACC)grad_scale;
            values[i] = real ? value : (ACC)0;  // a row of padding may hold NaN
        }
        store8(own, values, start, width, whole);
    }
    if (real && target / 8 % blockDim.x == threadIdx.x)  // the thread that wrote there
        put(own + target, (exp(-nll) - spread - (ACC)(1.0 - smoothing)) * (ACC)grad_scale);
}
