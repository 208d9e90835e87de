// CUDA's words for a C++ compiler: enough of them to compile the kernels of minitransformer/kernels/cupy for a CPU.
//
// What they mean is in emulation.cpp. Kernels are compiled as for ThreadSanitizer, so that each of their accesses to
// memory calls a function there, which checks and records it.

#include <cmath>
#include <cstring>

#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 900
#endif
#define __global__
#define __device__
#define __launch_bounds__(...)
#define UNCHECKED __attribute__((no_sanitize("thread")))
#define threadIdx here.thread
#define blockIdx here.block
#define blockDim here.threads
#define gridDim here.blocks
#define __syncthreads() wait_for_block(false, __LINE__)
#define __syncthreads_or(value) wait_for_block(value, __LINE__)
#define __shfl_xor_sync(all, value, distance) shown_by(lane() ^ (unsigned int)(distance), show(value, __LINE__), value)

using std::exp;
using std::log;
using std::sqrt;

struct Place {
    unsigned int x, y, z;
};
struct Here {
    Place thread, block, threads, blocks;
};
extern Here here;
extern void **arguments;

// Waits for all threads of the block; whether the value is true in any of them.
bool wait_for_block(bool value, int line);
// Shows bytes to all 32 threads of the warp and waits until all have; then word_shown gives word i of those of each.
unsigned int show_to_warp(const void *value, unsigned int size, int line);
unsigned int word_shown(unsigned int lane, unsigned int turn, int i);
// Tells that this thread has shared memory of a name.
void has_shared(const char *name, void *start, unsigned long bytes, unsigned long of_one);
[[noreturn]] void misaligned(const void *address);

// __shared__ T name[...] is compiled as Shared<T[...]>: nothing is near it that an index too large could reach.
template <typename Array>
struct Shared {
    Array values;
    char gap[16384];
};

template <typename Array>
static Array &shared(Shared<Array> &memory, const char *name) {
    has_shared(name, memory.values, sizeof(Array), sizeof(std::remove_all_extents_t<Array>));
    return memory.values;
}

static unsigned int lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <typename Value>
static unsigned int show(const Value &value, int line) {
    return show_to_warp(&value, sizeof(Value), line);
}

template <typename Value>
static Value shown_by(unsigned int lane, unsigned int turn, Value) {
    unsigned int words[sizeof(Value) / 4];
    for (int i = 0; i < sizeof(Value) / 4; ++i) words[i] = word_shown(lane, turn, i);
    Value value;
    std::memcpy(&value, words, sizeof(Value));
    return value;
}

static float __uint_as_float(unsigned int bits) {
    return __builtin_bit_cast(float, bits);
}

static unsigned int __float_as_uint(float x) {
    return __builtin_bit_cast(unsigned int, x);
}

static float half_to_float(unsigned short bits) {
    return (float)__builtin_bit_cast(_Float16, bits);
}

static unsigned short float_to_half(float x) {
    return __builtin_bit_cast(unsigned short, (_Float16)x);
}

// Tensor cores, with the layouts of tensor_cores.cuh
template <bool TRANSPOSED, typename S>
static void load_fragment(unsigned int *words, const S *from, int distance) {
    if ((unsigned long long)from % 16 || distance * sizeof(S) % 16) misaligned(from);
    for (int i = 0; i < 8; ++i) {
        int word = i / 2, row = lane() / 4 + word % 2 * 8, column = lane() % 4 * 2 + i % 2 + word / 2 * 8;
        unsigned int bits = from[TRANSPOSED ? column * distance + row : row * distance + column].bits;
        words[word] = i % 2 ? words[word] | bits << 16 : bits;
    }
}

template <typename S>
static void multiply_eight(S, float *sums, const unsigned int *a, unsigned int b0, unsigned int b1) {
    unsigned int mine[6] = {a[0], a[1], a[2], a[3], b0, b1}, turn = show(mine, __LINE__);
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 16; ++k) {
            unsigned int row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2, shift = k % 2 * 16;
            unsigned int left = word_shown(row % 8 * 4 + k % 8 / 2, turn, row / 8 + k / 8 * 2);
            unsigned int right = word_shown(column * 4 + k % 8 / 2, turn, 4 + k / 8);
            S x = {(unsigned short)(left >> shift)}, y = {(unsigned short)(right >> shift)};
            sums[i] += value_of(x) * value_of(y);
        }
}
