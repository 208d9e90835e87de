// Token ids to vectors, with positions and dropout; and the scatter-add of their gradient into the table.

// y[row] = Dropout(scale * table[ids[row]] + positions[row mod n_positions]); positions may be null
//
// Threads: one for each group of eight adjacent columns of a row; 256 to a block.
extern "C" __global__ void embed(const ACC *table, const long long *ids, const ACC *positions, T *y, long long n_rows,
                                 long long width, long long n_positions, double scale, long long whole,
                                 DROPOUT_ARGUMENTS) {
    long long groups = (width + 7) / 8, group = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (group >= n_rows * groups) return;
    long long row = group / groups, column = 8 * (group % groups);
    ACC values[8], position[8];
    load8(values, table + ids[row] * width, column, width, whole);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] *= (ACC)scale;
    if (positions) {
        load8(position, positions + row % n_positions * width, column, width, whole);
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] += position[i];
    }
    drop8(values, DROPOUT, row, column);
    store8(y + row * width, values, column, width, whole);
}

// grad_table[token] = scale * the sum of Dropout'(grad) over the rows of that token, in two kernels
//
// A frequent token has thousands of rows, most have one: work is shared by rows, not by tokens. order sorts the rows of
// grad by token, and a tile is TILE rows that follow each other in that order. Tokens whose rows lie in one tile are
// written to the table at once. What a tile holds of a longer run of equal tokens goes to parts, (tiles, 2, width):
// first of the run that comes from the tile before, then of the run that begins here and goes on. add_parts adds these,
// tile by tile. One writer for each value, in a fixed order: no atomics.
//
// Rows of tokens that do not occur are not touched.
// Threads: one for each group of eight adjacent columns, 64 to a block; blockIdx.x is the tile.
#define TILE 32

__device__ inline void write_row(ACC *row, ACC *sum, long long column, long long width, long long whole,
                                 double scale) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] *= (ACC)scale;
    store8(row, sum, column, width, whole);
}

extern "C" __global__ void add_tiles(const T *grad, const long long *ids, const long long *order, ACC *grad_table,
                                     ACC *parts, long long n_rows, long long width, double scale, long long whole,
                                     DROPOUT_ARGUMENTS) {
    long long column = 8 * (blockIdx.y * (long long)blockDim.x + threadIdx.x);
    long long first = (long long)blockIdx.x * TILE, end = first + TILE < n_rows ? first + TILE : n_rows;
    if (column >= width) return;
    bool from_before = first > 0 && ids[order[first - 1]] == ids[order[first]];
    ACC sum[8] = {}, values[8];
    for (long long i = first; i < end; ++i) {
        long long row = order[i], token = ids[row];
        load8(values, grad + row * width, column, width, whole);
        drop8(values, DROPOUT, row, column);
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[j] += values[j];
        bool goes_on = i + 1 < n_rows && ids[order[i + 1]] == token;
        if (goes_on && i + 1 < end) continue;
        if (from_before || goes_on)
            store8(parts + (2 * blockIdx.x + !from_before) * width, sum, column, width, whole);
        else
            write_row(grad_table + token * width, sum, column, width, whole, scale);
        from_before = false;
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[j] = 0;
    }
}

extern "C" __global__ void add_parts(const long long *ids, const long long *order, const ACC *parts, ACC *grad_table,
                                     long long n_rows, long long width, double scale, long long whole) {
    long long column = 8 * (blockIdx.y * (long long)blockDim.x + threadIdx.x);
    long long tile = blockIdx.x, first = tile * TILE, end = first + TILE;
    if (column >= width || end >= n_rows) return;
    long long token = ids[order[end]];
    bool begins_here = first == 0 || ids[order[first - 1]] != token;
    if (!begins_here || ids[order[end - 1]] != token) return;
    long long last = tile + 1, beyond = gridDim.x;  // the run's last tile, by bisection
    while (last + 1 < beyond) {
        long long middle = (last + beyond) / 2;
        if (ids[order[middle * TILE]] == token) last = middle;
        else beyond = middle;
    }
    ACC sum[8], values[8];
    load8(sum, parts + (2 * tile + 1) * width, column, width, whole);
#pragma unroll 4
    for (long long t = tile + 1; t <= last; ++t) {
        load8(values, parts + 2 * t * width, column, width, whole);
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[j] += values[j];
    }
    write_row(grad_table + token * width, sum, column, width, whole, scale);
}
