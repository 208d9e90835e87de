// Scaled dot-product attention of all heads, in one launch forward and one backward; scores are never stored.
//
//   y = Dropout(softmax(q k^T / sqrt(d_k))) v      [eq. 1]
//
// The equations are those of ops/attention.py, for a tile of queries and a tile of keys at a time, in shared memory.
// Forward is the streaming softmax  [Milakov & Gimelshein 2018; Dao et al. 2022]: it goes over the tiles of keys, and
// when one has a larger score than all before, the sums so far are multiplied by exp(old largest - new largest). It
// keeps two numbers of each row, the largest score and 1 / sum of exponentials; from these backward computes the
// weights again.
//
// Heads are read where the projections wrote them: head h of token t of sentence b starts at
// q + b * q_batch + h * q_head + t * q_row. So q, k and v may be columns of one packed array, (B, T, H d), slices of a
// cache, (B, H, N, d), or arrays of their own. y and grad_y are packed, (B, T, H d_v), and so are the gradients. D_K
// and D_V are d_k and d_v rounded up to multiples of 16; the columns added are zero.
//
// Threads: 128 for a tile. In the softmax thread i has eight keys, from 8 (i mod GROUPS) on, of query i div GROUPS, and
// one draw of random numbers for them; in products it has the sums of tiles.cuh.

constexpr int GROUPS = TILE / 8;  // threads of a row
constexpr int BLOCKS_AT_ONCE = sizeof(T) == 2 && D_K + D_V <= 128 ? 4 : 3;  // so many that registers suffice
constexpr int K_ROW = D_K + PAD, V_ROW = D_V + PAD, W_ROW = TILE + PAD, S_ROW = TILE + 8;  // lengths of stored rows

// Over the threads of a row
__device__ inline ACC row_sum(ACC sum) {
    for (int distance = 1; distance < GROUPS; distance *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    return sum;
}

__device__ inline ACC row_max(ACC largest) {
    for (int distance = 1; distance < GROUPS; distance *= 2) {
        ACC other = __shfl_xor_sync(0xffffffffu, largest, distance);
        largest = other > largest ? other : largest;
    }
    return largest;
}

// What both kernels are given. The mask, a byte for each score, is found by four strides, 0 for a broadcast axis; null:
// nothing is masked.
#define ATTENTION_ARGUMENTS                                                                                         \
    long long q_batch, long long q_head, long long q_row, long long k_batch, long long k_head, long long k_row,     \
    long long v_batch, long long v_head, long long v_row, long long mask_batch, long long mask_head,                \
    long long mask_query, long long mask_key, long long n_heads, long long n_queries, long long n_keys,             \
    long long d_k, long long d_v, double scale, DROPOUT_ARGUMENTS

// Bit i: whether the query may attend to key + i.   mask: of the query's sentence and head
__device__ inline unsigned int may_attend(const unsigned char *mask, long long mask_query, long long mask_key,
                                          long long query, long long key, long long n_queries, long long n_keys) {
    unsigned int allowed = 0;
    if (query < n_queries)
        for (int i = 0; i < 8; ++i)
            if (key + i < n_keys && (!mask || mask[query * mask_query + (key + i) * mask_key])) allowed |= 1u << i;
    return allowed;
}

// products = a b^T, of two tiles of WIDTH columns
template <int WIDTH>
__device__ inline void multiply_by_transpose(ACC *products, const T *a, const T *b) {
    Sums<TILE> sums;
    sums.template add_product<WIDTH, false, true>(a, WIDTH + PAD, b, WIDTH + PAD);
    sums.write(products, S_ROW);
}

// largest_of, inverse_of: of each row, for backward
extern "C" __global__ void __launch_bounds__(128) attention_forward(
    const T *q, const T *k, const T *v, const unsigned char *mask, T *y, ACC *largest_of, ACC *inverse_of,
    ATTENTION_ARGUMENTS) {
    alignas(16) __shared__ T queries[TILE * K_ROW], keys[TILE * K_ROW], values[TILE * V_ROW], weights[TILE * W_ROW];
    __shared__ ACC scores[TILE * S_ROW], factors[TILE];
    int n_tiles = (n_queries + TILE - 1) / TILE, tile = blockIdx.x % n_tiles, head = blockIdx.x / n_tiles;
    long long b = head / (int)n_heads, h = head % (int)n_heads, first_query = tile * TILE;
    q += b * q_batch + h * q_head, k += b * k_batch + h * k_head, v += b * v_batch + h * v_head;
    if (mask) mask += b * mask_batch + h * mask_head;
    int row = threadIdx.x / GROUPS, column = threadIdx.x % GROUPS * 8;
    bool has_row = row < TILE;  // all four warps, or one where TILE is 16
    long long query = first_query + row, n_row = head * n_queries + query;

    load_tile<D_K>(queries, q + first_query * q_row, q_row, n_queries - first_query, d_k);
    Sums<D_V> sums;
    ACC largest = -INFINITE, sum = 0;  // over the keys so far of this thread's row
    for (long long first_key = 0; first_key < n_keys; first_key += TILE) {
        unsigned int allowed =
            has_row ? may_attend(mask, mask_query, mask_key, query, first_key + column, n_queries, n_keys) : 0;
        if (!__syncthreads_or(allowed)) continue;  // a tile of the future, or of padding
        load_tile<D_K>(keys, k + first_key * k_row, k_row, n_keys - first_key, d_k);
        load_tile<D_V>(values, v + first_key * v_row, v_row, n_keys - first_key, d_v);
        __syncthreads();
        multiply_by_transpose<D_K>(scores, queries, keys);
        __syncthreads();
        if (has_row) {
            ACC exponentials[8], before = largest, total = 0;
            for (int i = 0; i < 8; ++i) {
                ACC score = scores[row * S_ROW + column + i] * (ACC)scale;
                exponentials[i] = allowed >> i & 1 ? score : -INFINITE;
                largest = exponentials[i] > largest ? exponentials[i] : largest;
            }
            largest = row_max(largest);
            ACC shift = largest == -INFINITE ? (ACC)0 : largest;  // -inf - -inf would be NaN
            for (int i = 0; i < 8; ++i) total += exponentials[i] = exp(exponentials[i] - shift);
            ACC rescale = exp(before - shift);
            sum = sum * rescale + row_sum(total);
            if (column == 0) factors[row] = rescale;
            drop8(exponentials, DROPOUT, n_row, first_key + column);
            for (int i = 0; i < 8; ++i) put(weights + row * W_ROW + column + i, exponentials[i]);
        }
        __syncthreads();
        sums.multiply_rows(factors);
        sums.template add_product<TILE, false, false>(weights, W_ROW, values, V_ROW);
    }
    __syncthreads();
    if (has_row && column == 0) {
        ACC inverse = sum == 0 ? (ACC)0 : 1 / sum;  // a row that may attend to nothing gives zeros
        factors[row] = inverse;
        if (query < n_queries) {
            largest_of[n_row] = largest == -INFINITE ? (ACC)0 : largest;
            inverse_of[n_row] = inverse;
        }
    }
    __syncthreads();
    sums.multiply_rows(factors);
    sums.write(values, V_ROW);
    __syncthreads();
    y += ((b * n_queries + first_query) * n_heads + h) * d_v;
    store_tile<D_V>(y, values, n_heads * d_v, n_queries - first_query, d_v);
}

//   grad_v = Dropout(weights)^T grad_y
//   grad_scores = weights * (Dropout'(grad_y v^T) - delta) / sqrt(d_k),   delta = sum over the row of grad_y * y
//   grad_q = grad_scores k,   grad_k = grad_scores^T q
//
// A block owns a tile of keys, and sums the gradients of its k and v over all tiles of queries; or it owns a tile of
// queries, and sums the gradient of its q over all tiles of keys. So each gradient is summed by one block, in order:
// this takes neither atomics nor a second launch. The price is that scores are computed twice; not so for ONE_TILE,
// where a sentence has no more queries and keys than a tile: there one block owns them all.
extern "C" __global__ void __launch_bounds__(128, BLOCKS_AT_ONCE) attention_backward(
    const T *q, const T *k, const T *v, const unsigned char *mask, const T *y, const ACC *largest_of,
    const ACC *inverse_of, const T *grad_y, T *grad_q, T *grad_k, T *grad_v, ATTENTION_ARGUMENTS) {
    alignas(16) __shared__ T queries[TILE * K_ROW], keys[TILE * K_ROW], values[TILE * V_ROW], grads[TILE * V_ROW];
    alignas(16) __shared__ T weights[TILE * W_ROW];
    __shared__ ACC scores[TILE * S_ROW];
    int key_tiles = (n_keys + TILE - 1) / TILE, n_tiles = ONE_TILE ? 1 : key_tiles + (n_queries + TILE - 1) / TILE;
    int tile = blockIdx.x % n_tiles, head = blockIdx.x / n_tiles;
    bool has_keys = ONE_TILE || tile < key_tiles;  // the block owns keys
    const long long own_key = has_keys ? tile * TILE : 0, own_query = has_keys ? 0 : (tile - key_tiles) * TILE;
    long long first_key = own_key, first_query = own_query;
    long long b = head / (int)n_heads, h = head % (int)n_heads;
    q += b * q_batch + h * q_head, k += b * k_batch + h * k_head, v += b * v_batch + h * v_head;
    if (mask) mask += b * mask_batch + h * mask_head;
    long long y_row = n_heads * d_v, y_head = b * n_queries * y_row + h * d_v;
    int row = threadIdx.x / GROUPS, column = threadIdx.x % GROUPS * 8;
    bool has_row = row < TILE;
    bool whole = d_v % 8 == 0 && (unsigned long long)y % 16 == 0;

    if (has_keys) {
        load_tile<D_K>(keys, k + first_key * k_row, k_row, n_keys - first_key, d_k);
        load_tile<D_V>(values, v + first_key * v_row, v_row, n_keys - first_key, d_v);
    } else {
        load_tile<D_K>(queries, q + first_query * q_row, q_row, n_queries - first_query, d_k);
        load_tile<D_V>(grads, grad_y + y_head + first_query * y_row, y_row, n_queries - first_query, d_v);
    }
    Sums<D_K> grad;  // of the keys, or of the queries; with ONE_TILE of both, one after the other
    Sums<D_V> grad_values;
    for (; has_keys ? first_query < n_queries : first_key < n_keys; (has_keys ? first_query : first_key) += TILE) {
        long long query = first_query + row, n_row = head * n_queries + query;
        unsigned int allowed =
            has_row ? may_attend(mask, mask_query, mask_key, query, first_key + column, n_queries, n_keys) : 0;
        if (!__syncthreads_or(allowed) && !ONE_TILE) continue;
        if (has_keys) {
            load_tile<D_K>(queries, q + first_query * q_row, q_row, n_queries - first_query, d_k);
            load_tile<D_V>(grads, grad_y + y_head + first_query * y_row, y_row, n_queries - first_query, d_v);
        } else {
            load_tile<D_K>(keys, k + first_key * k_row, k_row, n_keys - first_key, d_k);
            load_tile<D_V>(values, v + first_key * v_row, v_row, n_keys - first_key, d_v);
        }
        __syncthreads();
        multiply_by_transpose<D_K>(scores, queries, keys);
        __syncthreads();
        ACC weight[8], kept[8], delta = 0;  // kept: 1 / (1 - p_drop), or 0
        if (has_row) {
            ACC largest = query < n_queries ? largest_of[n_row] : (ACC)0;
            ACC inverse = query < n_queries ? inverse_of[n_row] : (ACC)0;
            for (int i = 0; i < 8; ++i) {
                ACC score = scores[row * S_ROW + column + i] * (ACC)scale;
                weight[i] = allowed >> i & 1 ? exp(score - largest) * inverse : (ACC)0;
                kept[i] = 1;
            }
            drop8(kept, DROPOUT, n_row, first_key + column);
            for (int i = 0; i < 8; ++i) put(weights + row * W_ROW + column + i, weight[i] * kept[i]);
            for (int i = column; i < D_V && query < n_queries; i += GROUPS * 8) {
                ACC outputs[8];
                load8(outputs, y + y_head + query * y_row, i, d_v, whole);
                for (int j = 0; j < 8; ++j) delta += outputs[j] * value_of(grads[row * V_ROW + i + j]);
            }
            delta = row_sum(delta);
        }
        __syncthreads();
        if (has_keys) grad_values.template add_product<TILE, true, false>(weights, W_ROW, grads, V_ROW);
        multiply_by_transpose<D_V>(scores, grads, values);
        __syncthreads();
        if (has_row)
            for (int i = 0; i < 8; ++i) {
                ACC grad_weight = scores[row * S_ROW + column + i] * kept[i];
                put(weights + row * W_ROW + column + i, (ACC)scale * weight[i] * (grad_weight - delta));
            }
        __syncthreads();
        if (has_keys) grad.template add_product<TILE, true, false>(weights, W_ROW, queries, K_ROW);
        else grad.template add_product<TILE, false, false>(weights, W_ROW, keys, K_ROW);
    }
    __syncthreads();
    grad.write(has_keys ? queries : keys, K_ROW);
    if (has_keys) grad_values.write(values, V_ROW);
    if constexpr (ONE_TILE) {
        grad = {};
        grad.template add_product<TILE, false, false>(weights, W_ROW, keys, K_ROW);
        __syncthreads();
        grad.write(keys, K_ROW);
    }
    __syncthreads();
    if (has_keys) {
        grad_k += ((b * n_keys + own_key) * n_heads + h) * d_k;
        grad_v += ((b * n_keys + own_key) * n_heads + h) * d_v;
        store_tile<D_K>(grad_k, queries, n_heads * d_k, n_keys - own_key, d_k);
        store_tile<D_V>(grad_v, values, n_heads * d_v, n_keys - own_key, d_v);
    }
    if (ONE_TILE || !has_keys) {
        grad_q += ((b * n_queries + own_query) * n_heads + h) * d_k;
        store_tile<D_K>(grad_q, keys, n_heads * d_k, n_queries - own_query, d_k);
    }
}
