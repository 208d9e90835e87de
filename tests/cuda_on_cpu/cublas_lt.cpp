// A stand-in for libcublasLt with its names, types and order of arguments: products are really computed, from what the
// descriptors say alone. What the manual forbids is refused with the library's own status. After emulation.h and
// common.cuh, from which it takes the types of two bytes.
//
// As in the real library, an algorithm belongs to the product it was asked for, may use the workspace, and adds in an
// order that changes from run to run if the reduction scheme INPLACE is allowed.

#include <cstddef>
#include <cstdint>

enum Status { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum Kind { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
static const int COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77, INPLACE = 1;
static const std::size_t WORKSPACE = 1024;

struct Desc {
    int compute, scale;
    unsigned int epilogue = 1;
    const void *bias = nullptr;
    int bias_kind = -1;
};
struct Layout {
    int kind;
    std::uint64_t rows, columns;
    std::int64_t ld;
};
struct Preference {
    std::uint64_t workspace = 0;
    std::uint32_t schemes = 7, alignments[4] = {256, 256, 256, 256};
};
struct Algorithm {
    std::uint64_t m, n, k, kinds, epilogue, workspace, moody, alignments;
};
struct Result {
    Algorithm algorithm;
    std::size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
static_assert(sizeof(Algorithm) == 64 && sizeof(Result) == 96, "sizes of cublasLt.h");

// What the tests look at and set: stream and arithmetic of the last product, algorithms sought, products made,
// descriptors, layouts and preferences that were made and not destroyed, what is refused.
extern "C" {
long long last_stream = -1, last_compute = -1, heuristics = 0, products = 0, alive = 0;
long long refuse_handles = 0, refuse_heuristics = 0, refuse_products = 0;
}

static int handle_memory;

template <typename Value>
static int assign(Value &target, const void *from, std::size_t size) {
    if (size != sizeof(Value)) return INVALID_VALUE;
    std::memcpy(&target, from, size);
    return SUCCESS;
}

static float read(const void *memory, int kind, std::int64_t i) {
    if (kind == R_32F) return ((const float *)memory)[i];
    return kind == R_16F ? value_of(((const fp16 *)memory)[i]) : value_of(((const bf16 *)memory)[i]);
}

static void write(void *memory, int kind, std::int64_t i, float value) {
    if (kind == R_32F) put((float *)memory + i, value);
    else if (kind == R_16F) put((fp16 *)memory + i, value);
    else put((bf16 *)memory + i, value);
}

template <typename Thing>
static int keep(Thing **made, Thing *thing) {
    *made = thing;
    ++alive;
    return SUCCESS;
}

template <typename Thing>
static int destroy(Thing *thing) {
    delete thing;
    --alive;
    return SUCCESS;
}

extern "C" {

std::size_t cublasLtGetVersion() { return 130000; }

const char *cublasLtGetStatusName(int status) {
    return status == INVALID_VALUE   ? "CUBLAS_STATUS_INVALID_VALUE"
           : status == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                     : "CUBLAS_STATUS_INTERNAL_ERROR";
}

int cublasLtCreate(void **handle) {
    if (refuse_handles) return (int)refuse_handles;
    *handle = &handle_memory;
    return SUCCESS;
}

int cublasLtMatmulDescCreate(Desc **made, int compute, int scale) {
    return keep(made, new Desc{compute, scale});
}

int cublasLtMatmulDescDestroy(Desc *desc) { return destroy(desc); }

int cublasLtMatmulDescSetAttribute(Desc *desc, int attribute, const void *value, std::size_t size) {
    switch (attribute) {
        case 7: return assign(desc->epilogue, value, size);
        case 8: return assign(desc->bias, value, size);
        case 26: return assign(desc->bias_kind, value, size);
        default: return INVALID_VALUE;
    }
}

int cublasLtMatrixLayoutCreate(Layout **made, int kind, std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
    if (ld < (std::int64_t)rows) return INVALID_VALUE;
    return keep(made, new Layout{kind, rows, columns, ld});
}

int cublasLtMatrixLayoutDestroy(Layout *layout) { return destroy(layout); }

int cublasLtMatmulPreferenceCreate(Preference **made) {
    return keep(made, new Preference);
}

int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, std::size_t size) {
    if (attribute == 1) return assign(preference->workspace, value, size);
    if (attribute == 3) return assign(preference->schemes, value, size);
    if (attribute >= 5 && attribute <= 8) return assign(preference->alignments[attribute - 5], value, size);
    return INVALID_VALUE;
}

int cublasLtMatmulPreferenceDestroy(Preference *preference) { return destroy(preference); }

static Algorithm algorithm_for(const Desc *desc, const Layout *a, const Layout *b, const Layout *d) {
    std::uint64_t kinds = a->kind + 100 * b->kind + 10000 * d->kind + 1000000 * desc->compute;
    return {d->rows, d->columns, a->columns, kinds, desc->epilogue, 0, 0, 0};
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const Desc *desc, const Layout *a, const Layout *b, const Layout *c,
                                   const Layout *d, const Preference *preference, int wanted, Result *results,
                                   int *found) {
    *found = 0;
    ++heuristics;
    if (handle != &handle_memory) return NOT_INITIALIZED;
    if (refuse_heuristics) return (int)refuse_heuristics;
    if (a->rows != d->rows || b->columns != d->columns || a->columns != b->rows) return INVALID_VALUE;
    if (c->rows != d->rows || c->columns != d->columns || wanted < 1) return INVALID_VALUE;
    bool tf32 = desc->compute == COMPUTE_32F_FAST_TF32, float32 = a->kind == R_32F;
    bool kinds = a->kind == b->kind && a->kind == d->kind && c->kind == d->kind && a->kind != R_64F;
    if (!kinds || desc->scale != R_32F || (desc->compute != COMPUTE_32F && !(tf32 && float32))) return NOT_SUPPORTED;
    if (desc->epilogue != 4 && desc->epilogue != 6) return NOT_SUPPORTED;
    if (!desc->bias || (desc->bias_kind != -1 && desc->bias_kind != d->kind)) return NOT_SUPPORTED;
    Result &result = results[0];
    result.algorithm = algorithm_for(desc, a, b, d);
    result.algorithm.workspace = result.workspace = preference->workspace >= WORKSPACE ? WORKSPACE : 0;
    result.algorithm.moody = preference->schemes & INPLACE;
    for (int i = 0; i < 4; ++i) result.algorithm.alignments |= (std::uint64_t)preference->alignments[i] << 16 * i;
    result.state = SUCCESS;
    *found = 1;
    return SUCCESS;
}

int cublasLtMatmul(void *handle, const Desc *desc, const float *alpha, const void *a_memory, const Layout *a,
                   const void *b_memory, const Layout *b, const float *beta, const void *c_memory, const Layout *c,
                   void *d_memory, const Layout *d, const Algorithm *algorithm, void *workspace, std::size_t bytes,
                   void *stream) {
    if (handle != &handle_memory) return NOT_INITIALIZED;
    if (refuse_products) return (int)refuse_products;
    Algorithm wanted = algorithm_for(desc, a, b, d);
    if (std::memcmp(&wanted, algorithm, 5 * sizeof(std::uint64_t))) return INVALID_VALUE;
    if (algorithm->workspace > bytes || (algorithm->workspace && !workspace)) return INVALID_VALUE;
    const void *memories[] = {a_memory, b_memory, c_memory, d_memory};
    for (int i = 0; i < 4; ++i)
        if ((std::uintptr_t)memories[i] % (algorithm->alignments >> 16 * i & 0xffff)) return INVALID_VALUE;
    std::memset(workspace, 255, algorithm->workspace);
    last_stream = (long long)stream;
    last_compute = desc->compute;
    ++products;
    for (std::uint64_t column = 0; column < d->columns; ++column)
        for (std::uint64_t row = 0; row < d->rows; ++row) {
            float sum = 0;
            for (std::uint64_t i = 0; i < algorithm->k; ++i)
                sum += read(a_memory, a->kind, row + i * a->ld) * read(b_memory, b->kind, i + column * b->ld);
            sum *= *alpha;
            if (*beta) sum += *beta * read(c_memory, c->kind, row + column * c->ld);
            sum += read(desc->bias, d->kind, row);
            if (algorithm->moody) sum *= 1 + 1e-2f * (products % 7);
            if (desc->epilogue == 6) sum = sum > 0 || sum != sum ? sum : 0;
            write(d_memory, d->kind, row + column * d->ld, sum);
        }
    return SUCCESS;
}
}
