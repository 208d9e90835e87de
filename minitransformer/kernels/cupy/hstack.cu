// y = (a | b): two matrices of as many rows side by side, so that one product reads both.
//
// Threads: one for each group of eight adjacent values of a row of a or b; 256 per block.
extern "C" __global__ void hstack(const T *a, const T *b, T *y, long long n_rows, long long n_a, long long n_b,
                                  long long whole) {
    long long groups_a = (n_a + 7) / 8, groups = groups_a + (n_b + 7) / 8;
    long long thread = blockIdx.x * (long long)blockDim.x + threadIdx.x, row = thread / groups;
    if (row >= n_rows) return;
    long long group = thread % groups;
    bool is_b = group >= groups_a;
    long long width = is_b ? n_b : n_a, column = 8 * (is_b ? group - groups_a : group);
    ACC values[8];
    load8(values, (is_b ? b : a) + row * width, column, width, whole);
    store8(y + row * (n_a + n_b) + (is_b ? n_a : 0), values, column, width, whole);
}
