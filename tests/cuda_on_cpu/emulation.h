// CUDA's words for a C++ compiler: enough of them to run the kernels of minitransformer/kernels/cupy on a CPU.
//
// The threads of a block are fibers of one thread. Each runs until it waits: at __syncthreads, until all threads of the
// block wait there; at a shuffle or a product of tensor cores, until all 32 of its warp do. A kernel in which some threads never arrive, which a GPU
// answers with a hang or with nonsense, is reported. Between two barriers one warp runs as far as it can before the next
// one starts, the first warp first or the last one first: where a barrier is missing, the two orders differ in what they
// compute. One block runs after the other; shared memory is static.

#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <vector>

#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 900
#endif
#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)

using std::exp;
using std::log;
using std::sqrt;

struct Place {
    unsigned int x, y, z;
};
static Place threadIdx, blockIdx, blockDim, gridDim;

static float __uint_as_float(unsigned int bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

static unsigned int __float_as_uint(float x) {
    unsigned int bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

static float half_to_float(unsigned short bits) {
    _Float16 x;
    std::memcpy(&x, &bits, 2);
    return (float)x;
}

static unsigned short float_to_half(float x) {
    _Float16 half = (_Float16)x;
    unsigned short bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}

enum State { READY, AT_BARRIER, AT_SHUFFLE, ENDED };

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    State state;
    Place index;
    unsigned int shuffles, votes;
    unsigned char shown[2][24];  // what this thread shows to its warp, in this shuffle and the one before
    bool vote[2];                // the same for the block
};

static std::vector<Fiber> fibers(1024);
static ucontext_t scheduler;
static unsigned int current;
static void (*body)();

static void wait_as(State state) {
    Fiber &me = fibers[current];
    me.state = state;
    swapcontext(&me.context, &scheduler);
    threadIdx = me.index;
}

static void __syncthreads() { wait_as(AT_BARRIER); }

// Whether the value is true in any thread of the block
static bool __syncthreads_or(bool value) {
    unsigned int turn = fibers[current].votes++ % 2, n = blockDim.x * blockDim.y * blockDim.z;
    fibers[current].vote[turn] = value;
    wait_as(AT_BARRIER);
    for (unsigned int i = 0; i < n; ++i)
        if (fibers[i].vote[turn]) return true;
    return false;
}

// Shows a value to all threads of the warp; then shown_by gives theirs.
template <typename Value>
static unsigned int show(const Value &value) {
    unsigned int turn = fibers[current].shuffles++ % 2;
    std::memcpy(fibers[current].shown[turn], &value, sizeof(Value));
    wait_as(AT_SHUFFLE);
    return turn;
}

template <typename Value>
static Value shown_by(unsigned int thread, unsigned int turn) {
    Value value;
    std::memcpy(&value, fibers[thread].shown[turn], sizeof(Value));
    return value;
}

template <typename Value>
static Value __shfl_xor_sync(unsigned int, Value value, int distance) {
    unsigned int turn = show(value);
    return shown_by<Value>(current ^ (unsigned int)distance, turn);
}

// Tensor cores, with the layouts of tensor_cores.cuh. A misaligned matrix, which a GPU refuses, gives NaN.
template <bool TRANSPOSED, typename S>
static void load_fragment(unsigned int *words, const S *from, int distance) {
    bool aligned = (unsigned long long)from % 16 == 0 && distance * sizeof(S) % 16 == 0;
    for (int i = 0; i < 8; ++i) {
        int word = i / 2, row = current % 32 / 4 + word % 2 * 8, column = current % 4 * 2 + i % 2 + word / 2 * 8;
        unsigned int bits = aligned ? from[TRANSPOSED ? column * distance + row : row * distance + column].bits : 0xffffu;
        words[word] = i % 2 ? words[word] | bits << 16 : bits;
    }
}

struct Factors {
    unsigned int a[4], b[2];
};

template <typename S>
static void multiply_eight(S, float *sums, const unsigned int *a, unsigned int b0, unsigned int b1) {
    unsigned int turn = show(Factors{{a[0], a[1], a[2], a[3]}, {b0, b1}}), lane = current % 32, first = current - lane;
    for (unsigned int i = 0; i < 4; ++i)
        for (unsigned int k = 0; k < 16; ++k) {
            unsigned int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2, shift = k % 2 * 16;
            Factors left = shown_by<Factors>(first + row % 8 * 4 + k % 8 / 2, turn);
            Factors right = shown_by<Factors>(first + column * 4 + k % 8 / 2, turn);
            S x = {(unsigned short)(left.a[row / 8 + k / 8 * 2] >> shift)};
            S y = {(unsigned short)(right.b[k / 8] >> shift)};
            sums[i] += value_of(x) * value_of(y);
        }
}

static void start_of_fiber() {
    body();
    fibers[current].state = ENDED;
    swapcontext(&fibers[current].context, &scheduler);
}

static void resume(unsigned int number) {
    current = number;
    threadIdx = fibers[number].index;
    swapcontext(&scheduler, &fibers[number].context);
}

static void start(unsigned int number) {
    Fiber &fiber = fibers[number];
    fiber.stack.resize(65536);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, start_of_fiber, 0);
    fiber.index = {number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
    fiber.state = READY;
    fiber.shuffles = fiber.votes = 0;
}

// Lets the threads first..first + size - 1 run until all of them wait for other warps, or for ever.
static void run_warp(unsigned int first, unsigned int size) {
    while (true) {
        unsigned int ready = 0, at_shuffle = 0;
        for (unsigned int i = first; i < first + size; ++i) {
            ready += fibers[i].state == READY;
            at_shuffle += fibers[i].state == AT_SHUFFLE;
        }
        if (ready == 0 && at_shuffle < 32) return;
        for (unsigned int i = first; i < first + size; ++i)
            if (ready == 0 || fibers[i].state == READY) resume(i);
    }
}

// Lets all threads of a block run to their ends; false if they wait for each other for ever.
static bool run_block(unsigned int n, bool last_first) {
    for (unsigned int i = 0; i < n; ++i) start(i);
    unsigned int warps = (n + 31) / 32;
    while (true) {
        for (unsigned int w = 0; w < warps; ++w) {
            unsigned int first = 32 * (last_first ? warps - 1 - w : w);
            run_warp(first, n - first < 32 ? n - first : 32);
        }
        unsigned int ended = 0, at_barrier = 0;
        for (unsigned int i = 0; i < n; ++i) {
            ended += fibers[i].state == ENDED;
            at_barrier += fibers[i].state == AT_BARRIER;
        }
        if (ended == n) return true;
        if (at_barrier < n) return false;
        for (unsigned int i = 0; i < n; ++i) fibers[i].state = READY;
    }
}

// 0 if every block ended, else 1 + the number of the first that did not.
static long long run_grid(Place grid, Place block, void (*kernel)(), bool last_first) {
    gridDim = grid, blockDim = block, body = kernel;
    for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
                if (!run_block(block.x * block.y * block.z, last_first))
                    return 1 + blockIdx.x + (long long)grid.x * (blockIdx.y + (long long)grid.y * blockIdx.z);
    return 0;
}
