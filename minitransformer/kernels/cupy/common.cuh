// What all kernels of this folder share: how values are stored, vectors of eight values, sums over a block.
//
// Each .cu file is compiled once for every way to store activations. Two names, STORED and COMPUTED, come from outside:
//   T = STORED      the type of activations and their gradients in memory: float, double, bf16 or fp16
//   ACC = COMPUTED  what is computed and summed in, and the type of parameters: float, or double where T is double
// Every integer argument is a long long and every real one a double, so that no launch can confuse their sizes.

#define INFINITE ((ACC)__uint_as_float(0x7f800000u))
#define NOT_A_NUMBER ((ACC)__uint_as_float(0x7fc00000u))

struct bf16 {  // the upper 16 bits of a float
    unsigned short bits;
};

struct fp16 {  // IEEE half precision
    unsigned short bits;
};

typedef STORED T;
typedef COMPUTED ACC;

__device__ inline float value_of(float x) { return x; }
__device__ inline double value_of(double x) { return x; }
__device__ inline float value_of(bf16 x) { return __uint_as_float((unsigned int)x.bits << 16); }

__device__ inline float value_of(fp16 x) {
#ifdef __CUDACC__
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#else
    return half_to_float(x.bits);
#endif
}

__device__ inline void put(float *out, float value) { *out = value; }
__device__ inline void put(double *out, double value) { *out = value; }

// Rounds to nearest, ties to even; NaN stays NaN. From Ampere on that is one instruction instead of seven.
__device__ inline void put(bf16 *out, float value) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out->bits) : "f"(value));
#else
    unsigned int bits = __float_as_uint(value);
    bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    bits += 0x7fffu + ((bits >> 16) & 1u);
    out->bits = is_nan ? 0x7fffu : (unsigned short)(bits >> 16);
#endif
}

__device__ inline void put(fp16 *out, float value) {
#ifdef __CUDACC__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out->bits) : "f"(value));
#else
    out->bits = float_to_half(value);
#endif
}

// A row is processed in groups of eight adjacent values: one thread, and one draw of random numbers, for each.
// "whole" says that every row is a multiple of eight and starts at a multiple of 16 bytes: then eight values of two
// bytes are moved as one vec16. Otherwise they are moved one by one, and values beyond the end of the row are zero.
template <typename S>
struct alignas(16) Vec8 {
    S values[8];
};

template <typename S>
__device__ inline void load8(ACC *out, const S *row, long long column, long long width, bool whole) {
    if (whole && column < width) {
        Vec8<S> vec = *reinterpret_cast<const Vec8<S> *>(row + column);
#pragma unroll
        for (int i = 0; i < 8; ++i) out[i] = value_of(vec.values[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) out[i] = column + i < width ? (ACC)value_of(row[column + i]) : (ACC)0;
    }
}

template <typename S>
__device__ inline void store8(S *row, const ACC *values, long long column, long long width, bool whole) {
    if (whole && column < width) {
        Vec8<S> vec;
#pragma unroll
        for (int i = 0; i < 8; ++i) put(&vec.values[i], values[i]);
        *reinterpret_cast<Vec8<S> *>(row + column) = vec;
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (column + i < width) put(row + column + i, values[i]);
    }
}

// The sum of one value of each of the 32 threads of a warp; all of them get it. Always in the same order: same bits.
__device__ inline ACC warp_sum(ACC value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

__device__ inline ACC warp_max(ACC value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        ACC other = __shfl_xor_sync(0xffffffffu, value, distance);
        value = other > value ? other : value;
    }
    return value;
}

// The same over a one-dimensional block of a multiple of 32 threads: within each warp, then over the warps in order.
__device__ inline ACC block_sum(ACC value) {
    __shared__ ACC parts[32];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < blockDim.x / 32; ++warp) value += parts[warp];
    __syncthreads();  // the next sum may use the same memory
    return value;
}
