// Softmax over the keys that a query may attend to, with dropout on the weights, and its gradient.
//
//   weights = softmax(scale * scores) where mask is true; a row that may attend to nothing gives zeros
//   dropped = weights * keep / (1 - p_drop)
//
// Threads: a warp works on a row, thread i of it on columns i, i + 32, ...; a block is 32 x 4 threads, four rows. The
// rows of attention are short (a sentence), so a row stays in the cache from the first pass to the third.

// mask: a byte for each score, found by four strides (bytes; 0 for a broadcast axis); null: nothing is masked
// dropped: null if nothing is dropped
extern "C" __global__ void softmax_forward(const ACC *scores, T *weights, T *dropped, const unsigned char *mask,
                                           long long n_rows, long long n_heads, long long n_queries, long long n_keys,
                                           long long batch_stride, long long head_stride, long long query_stride,
                                           long long key_stride, double scale, DROPOUT_ARGUMENTS) {
    long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
    if (row >= n_rows) return;  // the whole warp
    const ACC *from = scores + row * n_keys;
    long long query = row % n_queries, head = row / n_queries % n_heads, sentence = row / n_queries / n_heads;
    if (mask) mask += sentence * batch_stride + head * head_stride + query * query_stride;

    ACC largest = -INFINITE;
    bool has_nan = false;  // a NaN among the scores must not be hidden
    for (long long j = threadIdx.x; j < n_keys; j += 32)
        if (!mask || mask[j * key_stride]) {
            ACC score = from[j] * (ACC)scale;
            has_nan |= !(score == score);
            largest = score > largest ? score : largest;
        }
    largest = warp_max(largest);
    ACC sum = 0;
    if (largest == -INFINITE) largest = 0;  // -inf - -inf would be NaN
    for (long long j = threadIdx.x; j < n_keys; j += 32)
        if (!mask || mask[j * key_stride]) sum += exp(from[j] * (ACC)scale - largest);
    sum = warp_sum(has_nan ? NOT_A_NUMBER : sum);
    ACC inverse = sum == 0 ? (ACC)0 : (ACC)1 / sum;
    for (long long j = threadIdx.x; j < n_keys; j += 32) {
        bool may = !mask || mask[j * key_stride];
        ACC weight = may ? exp(from[j] * (ACC)scale - largest) * inverse : (ACC)0;
        put(weights + row * n_keys + j, weight);
        if (dropped) put(dropped + row * n_keys + j, drop1(weight, DROPOUT, row, j));
    }
}

//   grad_weights = Dropout'(grad_dropped)
//   grad_scores  = scale * weights * (grad_weights - sum over keys of grad_weights * weights)
extern "C" __global__ void softmax_backward(const ACC *grad_dropped, const T *weights, T *grad_scores, long long n_rows,
                                            long long n_keys, double scale, DROPOUT_ARGUMENTS) {
    long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
    if (row >= n_rows) return;
    long long start = row * n_keys;
    ACC sum = 0;
    for (long long j = threadIdx.x; j < n_keys; j += 32)
        sum += drop1(grad_dropped[start + j], DROPOUT, row, j) * value_of(weights[start + j]);
    sum = warp_sum(sum);
    for (long long j = threadIdx.x; j < n_keys; j += 32) {
        ACC grad = drop1(grad_dropped[start + j], DROPOUT, row, j);
        put(grad_scores + start + j, (ACC)scale * value_of(weights[start + j]) * (grad - sum));
    }
}
