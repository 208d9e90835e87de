// Tiles: TILE rows of a matrix in shared memory, and products of two tiles, spread over the registers of a block.
//
// TILE is 16 or 32. Tiles hold values of type T; products are summed in ACC, by tensor cores where they take T.

constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int PAD = sizeof(T) == 2 ? 8 : 1;  // values added to each row of a tile, so that rows start in other banks

// A matrix of TILE x COLUMNS sums. Thread i has those in rows i div 16, i div 16 + 8, ... and columns i mod 16,
// i mod 16 + 16, ...; with tensor cores a warp has blocks of 16 x 16, see tensor_cores.cuh.
template <int COLUMNS>
struct Sums {
    static constexpr bool ON_TENSOR_CORES = HAS_TENSOR_CORES<T>;
    static constexpr int DOWN = TILE / 8, ACROSS = COLUMNS / 16;
    static constexpr int BLOCKS = TILE / 16 * ACROSS;
    static constexpr int N = ON_TENSOR_CORES ? (BLOCKS + WARPS - 1) / WARPS * 8 : DOWN * ACROSS;
    ACC x[N] = {};

    // Where this thread's sum i is; a warp that has no block left is given rows from TILE on.
    __device__ int row(int i) const {
        if constexpr (ON_TENSOR_CORES) return block(i) / ACROSS * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
        else return threadIdx.x / 16 + i % DOWN * 8;
    }
    __device__ int column(int i) const {
        if constexpr (ON_TENSOR_CORES) return block(i) % ACROSS * 16 + threadIdx.x % 4 * 2 + i % 2 + i / 4 % 2 * 8;
        else return threadIdx.x % 16 + i / DOWN * 16;
    }
    __device__ int block(int i) const { return threadIdx.x / 32 + i / 8 * WARPS; }

    // sums += a b, TILE x DEPTH times DEPTH x COLUMNS. A factor that is TRANSPOSED is stored as its transpose; a_row
    // and b_row are the lengths of stored rows.
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

    // The same with tensor cores
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

// Reads a tile from rows that are distance values apart; what is beyond n_rows and width is zero.
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

// Writes what is within n_rows and width.
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
