// Scaled dot-product attention of all heads, in one launch forward and one backward; scores are never stored.
//
//   y = Dropout(softmax(q k^T / sqrt(d_k))) v      [eq. 1]
//
// The equations are those of ops/attention.py, for a tile of TILE queries and TILE keys at a time, in shared memory.
// Forward is the streaming softmax  [Milakov & Gimelshein 2018; Dao et al. 2022]: it goes over the tiles of keys, and
// when a tile has a larger score than all before, the sums so far are multiplied by exp(old largest - new largest). It
// keeps two numbers of each row, the largest score and 1 / sum of exponentials; backward computes the weights again.
//
// Heads are read where the projections wrote them: head h of token t of sentence b starts at
// x + b * x_batch + h * x_head + t * x_row. So q, k and v may be columns of one packed array, (B, T, H d), slices of a
// cache, (B, H, N, d), or arrays of their own. y and grad_y are packed, (B, T, H d_v); the gradient of x is packed too,
// in rows of grad_x_row values. D_K and D_V are d_k and d_v rounded up to multiples of 16; what is added is zero.
//
// Threads: 128 for a tile. For softmax thread i has eight keys, from 8 (i mod GROUPS), of query i div GROUPS, with one
// draw of random numbers; in products a thread has elements of the result, see Sums.

constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int GROUPS = TILE / 8;                 // of eight adjacent keys
constexpr int PAD = sizeof(T) == 2 ? 8 : 1;      // a row in shared memory is longer, so that rows start in other banks
constexpr int K_ROW = D_K + PAD, V_ROW = D_V + PAD, W_ROW = TILE + PAD, S_ROW = TILE + 8;

// A matrix of TILE x COLUMNS sums, spread over the registers of all threads: thread i has those in rows i div 16,
// 8 further on, ..., and columns i mod 16, 16 further on, ...; on tensor cores see tensor_cores.cuh.
template <int COLUMNS>
struct Sums {
    static constexpr bool ON_TENSOR_CORES = HAS_TENSOR_CORES<T>;
    static constexpr int DOWN = TILE / 8, ACROSS = COLUMNS / 16;
    static constexpr int BLOCKS = TILE / 16 * ACROSS;  // of 16 x 16, each in one warp
    static constexpr int N = ON_TENSOR_CORES ? (BLOCKS + WARPS - 1) / WARPS * 8 : DOWN * ACROSS;
    ACC x[N] = {};

    __device__ int row(int i) const {
        if constexpr (ON_TENSOR_CORES) return block(i) / ACROSS * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
        else return threadIdx.x / 16 + i % DOWN * 8;
    }
    __device__ int column(int i) const {
        if constexpr (ON_TENSOR_CORES) return block(i) % ACROSS * 16 + threadIdx.x % 4 * 2 + i % 2 + i / 4 % 2 * 8;
        else return threadIdx.x % 16 + i / DOWN * 16;
    }
    __device__ int block(int i) const { return threadIdx.x / 32 + i / 8 * WARPS; }

    // this += a b, TILE x DEPTH times DEPTH x COLUMNS; a factor that is TRANSPOSED lies in memory as its transpose
    template <int DEPTH, bool TRANSPOSED_A, bool TRANSPOSED_B>
    __device__ void add_product(const T *a, int a_row, const T *b, int b_row) {
        if constexpr (ON_TENSOR_CORES) add_blocks<DEPTH, TRANSPOSED_A, TRANSPOSED_B>(a, a_row, b, b_row);
        else
            for (int k = 0; k < DEPTH; ++k)
#pragma unroll
                for (int i = 0; i < N; ++i)
                    x[i] += value_of(TRANSPOSED_A ? a[k * a_row + row(i)] : a[row(i) * a_row + k]) *
                            value_of(TRANSPOSED_B ? b[column(i) * b_row + k] : b[k * b_row + column(i)]);
    }

    // The same on tensor cores
    template <int DEPTH, bool TRANSPOSED_A, bool TRANSPOSED_B>
    __device__ void add_blocks(const T *a, int a_row, const T *b, int b_row) {
#pragma unroll
        for (int i = 0; i < N; i += 8) {
            int row = block(i) / ACROSS * 16, column = block(i) % ACROSS * 16;
            if (row >= TILE) return;
#pragma unroll 2
            for (int k = 0; k < DEPTH; k += 16) {
                unsigned int of_a[4], of_b[4];
                load_fragment<TRANSPOSED_A>(of_a, a + (TRANSPOSED_A ? k * a_row + row : row * a_row + k), a_row);
                load_fragment<!TRANSPOSED_B>(of_b, b + (TRANSPOSED_B ? column * b_row + k : k * b_row + column), b_row);
                multiply_fragments<T>(x + i, of_a, of_b);
            }
        }
    }

    __device__ void multiply_rows(const ACC *factors) {
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (row(i) < TILE) x[i] *= factors[row(i)];
    }

    template <typename S>
    __device__ void write(S *tile, int distance) const {
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (row(i) < TILE) put(tile + row(i) * distance + column(i), x[i]);
    }
};

// A tile of n_rows x width at most from global to shared memory; what is beyond its rows and columns is zero there.
template <int WIDTH>
__device__ inline void load_tile(T *tile, const T *rows, long long distance, long long n_rows, long long width) {
    bool whole = width % 8 == 0 && distance % 8 == 0 && (unsigned long long)rows % 16 == 0;
    for (int i = threadIdx.x; i < TILE * (WIDTH / 8); i += THREADS) {
        int row = i / (WIDTH / 8), column = i % (WIDTH / 8) * 8;
        const T *from = rows + row * distance + column;
        T *to = tile + row * (WIDTH + PAD) + column;
        Vec8<T> vec = {};
        if (row < n_rows && whole && column < width) vec = *reinterpret_cast<const Vec8<T> *>(from);
        if (row < n_rows && !whole)
            for (int j = 0; j < 8; ++j)
                if (column + j < width) vec.values[j] = from[j];
        if constexpr (PAD == 8) *reinterpret_cast<Vec8<T> *>(to) = vec;
        else
            for (int j = 0; j < 8; ++j) to[j] = vec.values[j];
    }
}

template <int WIDTH>
__device__ inline void store_tile(T *rows, const T *tile, long long distance, long long n_rows, long long width) {
    bool whole = width % 8 == 0 && distance % 8 == 0 && (unsigned long long)rows % 16 == 0;
    for (int i = threadIdx.x; i < TILE * (WIDTH / 8); i += THREADS) {
        int row = i / (WIDTH / 8), column = i % (WIDTH / 8) * 8;
        ACC values[8];
        for (int j = 0; j < 8; ++j) values[j] = value_of(tile[row * (WIDTH + PAD) + column + j]);
        if (row < n_rows) store8(rows + row * distance, values, column, width, whole);
    }
}

// Over the GROUPS threads that share a row
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

// largest, inverse: of each row, for backward
extern "C" __global__ void __launch_bounds__(128) attention_forward(
    const T *q, const T *k, const T *v, const unsigned char *mask, T *y, ACC *largest_of, ACC *inverse_of,
    ATTENTION_ARGUMENTS) {
    alignas(16) __shared__ T queries[TILE * K_ROW], keys[TILE * K_ROW], values[TILE * V_ROW], weights[TILE * W_ROW];
    __shared__ ACC scores[TILE * S_ROW], factors[TILE];
    long long n_tiles = (n_queries + TILE - 1) / TILE, head = blockIdx.x / n_tiles;
    long long first_query = blockIdx.x % n_tiles * TILE, b = head / n_heads, h = head % n_heads;
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
        Sums<TILE> products;
        products.template add_product<D_K, false, true>(queries, K_ROW, keys, K_ROW);
        products.write(scores, S_ROW);
        __syncthreads();
        if (has_row) {
            ACC tile[8], before = largest;
            for (int i = 0; i < 8; ++i) {
                tile[i] = allowed >> i & 1 ? scores[row * S_ROW + column + i] * (ACC)scale : -INFINITE;
                largest = tile[i] > largest ? tile[i] : largest;
            }
            largest = row_max(largest);
            ACC finite = largest == -INFINITE ? (ACC)0 : largest;  // -inf - -inf would be NaN
            ACC shrink = exp(before - finite), of_tile = 0;
            for (int i = 0; i < 8; ++i) of_tile += tile[i] = exp(tile[i] - finite);
            sum = sum * shrink + row_sum(of_tile);
            if (column == 0) factors[row] = shrink;
            drop8(tile, DROPOUT, n_row, first_key + column);
            for (int i = 0; i < 8; ++i) put(weights + row * W_ROW + column + i, tile[i]);
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

//   grad_v = dropped^T grad_y                  dropped = Dropout(weights)
//   grad_scores = weights * (Dropout'(grad_y v^T) - sum over the row of grad_y y) / sqrt(d_k)
//   grad_q = grad_scores k                     grad_k = grad_scores^T q
//
// A block has one tile of keys, and adds up the two gradients of these keys over all tiles of queries; or it has one
// tile of queries, and adds up their gradient over all tiles of keys. So every sum has one owner: it takes neither
// atomics nor a second launch, at the price that scores are computed twice.
extern "C" __global__ void __launch_bounds__(128) attention_backward(
    const T *q, const T *k, const T *v, const unsigned char *mask, const T *y, const ACC *largest_of,
    const ACC *inverse_of, const T *grad_y, T *grad_q, T *grad_k, T *grad_v, long long grad_q_row, long long grad_k_row,
    long long grad_v_row, ATTENTION_ARGUMENTS) {
    alignas(16) __shared__ T queries[TILE * K_ROW], keys[TILE * K_ROW], values[TILE * V_ROW], grads[TILE * V_ROW];
    alignas(16) __shared__ T weights[TILE * W_ROW];
    __shared__ ACC scores[TILE * S_ROW];
    long long key_tiles = (n_keys + TILE - 1) / TILE, query_tiles = (n_queries + TILE - 1) / TILE;
    long long head = blockIdx.x / (key_tiles + query_tiles), tile = blockIdx.x % (key_tiles + query_tiles);
    bool has_keys = tile < key_tiles;
    long long first_key = has_keys ? tile * TILE : 0, first_query = has_keys ? 0 : (tile - key_tiles) * TILE;
    long long b = head / n_heads, h = head % n_heads;
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
    Sums<D_K> grad;  // of the keys, or of the queries
    Sums<D_V> grad_values;
    for (; has_keys ? first_query < n_queries : first_key < n_keys; (has_keys ? first_query : first_key) += TILE) {
        long long query = first_query + row, n_row = head * n_queries + query;
        unsigned int allowed =
            has_row ? may_attend(mask, mask_query, mask_key, query, first_key + column, n_queries, n_keys) : 0;
        if (!__syncthreads_or(allowed)) continue;
        if (has_keys) {
            load_tile<D_K>(queries, q + first_query * q_row, q_row, n_queries - first_query, d_k);
            load_tile<D_V>(grads, grad_y + y_head + first_query * y_row, y_row, n_queries - first_query, d_v);
        } else {
            load_tile<D_K>(keys, k + first_key * k_row, k_row, n_keys - first_key, d_k);
            load_tile<D_V>(values, v + first_key * v_row, v_row, n_keys - first_key, d_v);
        }
        __syncthreads();
        Sums<TILE> products;
        products.template add_product<D_K, false, true>(queries, K_ROW, keys, K_ROW);
        products.write(scores, S_ROW);
        __syncthreads();
        ACC of_tile[8], kept[8], along = 0;  // weights; 1 / (1 - p_drop) or 0; the sum over the row of grad_y y
        if (has_row) {
            ACC largest = query < n_queries ? largest_of[n_row] : (ACC)0;
            ACC inverse = query < n_queries ? inverse_of[n_row] : (ACC)0;
            for (int i = 0; i < 8; ++i) {
                ACC score = scores[row * S_ROW + column + i] * (ACC)scale;
                of_tile[i] = allowed >> i & 1 ? exp(score - largest) * inverse : (ACC)0;
                kept[i] = 1;
            }
            drop8(kept, DROPOUT, n_row, first_key + column);
            for (int i = 0; i < 8; ++i) put(weights + row * W_ROW + column + i, of_tile[i] * kept[i]);
            for (int i = column; i < D_V && query < n_queries; i += GROUPS * 8) {
                ACC outputs[8];
                load8(outputs, y + y_head + query * y_row, i, d_v, whole);
                for (int j = 0; j < 8; ++j) along += outputs[j] * value_of(grads[row * V_ROW + i + j]);
            }
            along = row_sum(along);
        }
        __syncthreads();
        if (has_keys) grad_values.template add_product<TILE, true, false>(weights, W_ROW, grads, V_ROW);
        products = {};
        products.template add_product<D_V, false, true>(grads, V_ROW, values, V_ROW);
        products.write(scores, S_ROW);
        __syncthreads();
        if (has_row)
            for (int i = 0; i < 8; ++i) {
                ACC grad_weight = scores[row * S_ROW + column + i] * kept[i];
                put(weights + row * W_ROW + column + i, (ACC)scale * of_tile[i] * (grad_weight - along));
            }
        __syncthreads();
        if (has_keys) grad.template add_product<TILE, true, false>(weights, W_ROW, queries, K_ROW);
        else grad.template add_product<TILE, false, false>(weights, W_ROW, keys, K_ROW);
    }
    __syncthreads();
    if (has_keys) {
        grad.write(queries, K_ROW);
        grad_values.write(grads, V_ROW);
        __syncthreads();
        grad_k += (b * n_keys + first_key) * grad_k_row + h * d_k;
        grad_v += (b * n_keys + first_key) * grad_v_row + h * d_v;
        store_tile<D_K>(grad_k, queries, grad_k_row, n_keys - first_key, d_k);
        store_tile<D_V>(grad_v, grads, grad_v_row, n_keys - first_key, d_v);
    } else {
        grad.write(keys, K_ROW);
        __syncthreads();
        grad_q += (b * n_queries + first_query) * grad_q_row + h * d_k;
        store_tile<D_K>(grad_q, keys, grad_q_row, n_queries - first_query, d_k);
    }
}
