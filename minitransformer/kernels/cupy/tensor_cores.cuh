// Tensor cores: a warp adds the product of two 16 x 16 matrices of half precision to sums in float32.
//
// This is what nvcuda::wmma does in C++, written with the instructions themselves [PTX ISA, ldmatrix and mma]: the
// header of wmma includes crt/mma.h, which is not installed with CuPy.
//
// A matrix is spread over the 32 threads of a warp, its quarters of 8 x 8 each in one word of two values:
//   word i of thread l holds columns 2 (l mod 4) and the next, of row l div 4, of the quarter in rows 8 (i mod 2)..,
//   columns 8 (i div 2)..
// Of the second factor it is the transpose that is spread in this way. The sums are spread as element i of thread l:
//   row l div 4 + 8 (i div 2 mod 2), column 2 (l mod 4) + i mod 2 + 8 (i div 4)

template <typename S>
constexpr bool HAS_TENSOR_CORES = false;
template <>
constexpr bool HAS_TENSOR_CORES<fp16> = __CUDA_ARCH__ >= 750;  // Turing
template <>
constexpr bool HAS_TENSOR_CORES<bf16> = __CUDA_ARCH__ >= 800;  // Ampere

#ifdef __CUDACC__  // elsewhere the emulation has these functions
// One 16 x 16 matrix in shared memory, or its transpose. from, and the distance of its rows: multiples of 16 bytes
template <bool TRANSPOSED, typename S>
__device__ inline void load_fragment(unsigned int *words, const S *from, int distance) {
    int lane = threadIdx.x % 32, far = lane / 16 * 8, near = lane / 8 % 2 * 8;  // where this thread's quarter starts
    from += (lane % 8 + (TRANSPOSED ? far : near)) * distance + (TRANSPOSED ? near : far);
    unsigned int address = (unsigned int)__cvta_generic_to_shared(from);
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(address) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(address) : "memory");
}

// sums += a b for eight columns of b: sums has four of the elements, b two of the words.
#define MULTIPLY(SHAPE_AND_TYPES, A, B)                                                         \
    asm volatile("mma.sync.aligned." SHAPE_AND_TYPES " {%0, %1, %2, %3}, " A B ", {%0, %1, %2, %3};" \
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

__device__ inline void multiply_eight(bf16, float *sums, const unsigned int *a, unsigned int b0, unsigned int b1) {
    MULTIPLY("m16n8k16.row.col.f32.bf16.bf16.f32", "{%4, %5, %6, %7}, ", "{%8, %9}");
}

__device__ inline void multiply_eight(fp16, float *sums, const unsigned int *a, unsigned int b0, unsigned int b1) {
#if __CUDA_ARCH__ >= 800
    MULTIPLY("m16n8k16.row.col.f32.f16.f16.f32", "{%4, %5, %6, %7}, ", "{%8, %9}");
#else  // Turing multiplies 16 x 8 by 8 x 8 at a time
    MULTIPLY("m16n8k8.row.col.f32.f16.f16.f32", "{%4, %5}, ", "{%8}");
    MULTIPLY("m16n8k8.row.col.f32.f16.f16.f32", "{%6, %7}, ", "{%9}");
#endif
}
#endif

// sums += a b, where b is the fragment of the second factor's transpose
template <typename S>
__device__ inline void multiply_fragments(float *sums, const unsigned int *a, const unsigned int *b) {
    multiply_eight(S(), sums, a, b[0], b[2]);
    multiply_eight(S(), sums + 4, a, b[1], b[3]);
}
