// CUDA's words for a C++ compiler: enough of them to run the kernels of minitransformer/kernels/cupy on a CPU.
//
// The threads of a block are fibers of one thread. Each runs until it waits: at __syncthreads, until all threads of the
// block wait there; at a shuffle, until all 32 of its warp do. A kernel in which some threads never arrive, which a GPU
// answers with a hang or with nonsense, is reported. Between two barriers one warp runs as far as it can before the next
// one starts, the first warp first or the last one first: where a barrier is missing, the two orders differ in what they
// compute. One block runs after the other; shared memory is static.

#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(threads)

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
    unsigned int shuffles;
    unsigned long long shown[2];  // what this thread shows to its warp, in this shuffle and the one before
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

template <typename Value>
static Value __shfl_xor_sync(unsigned int, Value value, int distance) {
    unsigned int me = current, turn = fibers[me].shuffles++ % 2;
    std::memcpy(&fibers[me].shown[turn], &value, sizeof(Value));
    wait_as(AT_SHUFFLE);
    std::memcpy(&value, &fibers[me ^ (unsigned int)distance].shown[turn], sizeof(Value));
    return value;
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
    fiber.shuffles = 0;
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
