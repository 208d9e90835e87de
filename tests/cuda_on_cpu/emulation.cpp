// The emulated GPU: it runs the blocks of a grid one after the other, and checks every access to memory.
//
// The threads of a block are fibers of one thread. Each runs until it waits: at a barrier, until all threads of the
// block wait there; at a shuffle or a product of tensor cores, until all 32 of its warp do. A fault ends the launch:
//   - threads that wait at another barrier than the others, or for threads that have ended
//   - an access beside the arrays that the kernel was given and its shared memory, or a write to one that is const
//   - a race: two threads touch one element, and one of them writes, with no barrier of the block between
//   - a read of shared memory that no thread of this block has written
//   - a vector at an address that it may not have
// What was touched between which barriers is known for each element, whatever order the threads happen to run in.

#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>

struct Place {
    unsigned int x, y, z;
};
struct Here {
    Place thread, block, threads, blocks;
} here;
void **arguments;

constexpr unsigned int MOST_THREADS = 1024, MOST_RANGES = 64, STACK = 65536, MOST_ACCESSES = 1 << 26;
enum State { READY, AT_BARRIER, AT_SHUFFLE, ENDED };

struct Fiber {
    jmp_buf context;
    State state;
    bool is_alive;
    Place index;
    int line;  // at which it waits
    unsigned int shuffles, votes;
    unsigned int shown[2][6];  // what this thread shows to its warp, in this shuffle and the one before
    bool vote[2];              // the same for the block
};

// What is known of an element: in which phase it was last written and read, and by which threads. A phase is what lies
// between two barriers of a block; each block begins a new one.
struct Cell {
    unsigned int wrote, read, first_read;
    unsigned short writer, reader;
};
constexpr unsigned short MANY = MOST_THREADS;

enum Use : unsigned char { NONE, READ, WRITTEN };  // what a kernel may do with an element

struct Range {  // of memory: an array, or several that interleave
    char *start;
    const unsigned char *uses;  // of each byte; null: every element is for `use`
    Cell *cells;                // of each element
    unsigned long bytes, of_one, use, is_shared;
    const char *name;
};

static Fiber fibers[MOST_THREADS];
static char stacks[MOST_THREADS][STACK];
static jmp_buf scheduler;
static unsigned int current, phase, first_phase;  // of this block
static void (*body)();
static Range ranges[MOST_RANGES], *last = ranges;
static unsigned int n_ranges, n_accesses;  // since the last barrier
static char message[512];

static void report(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = std::snprintf(message, sizeof message, "block (%u, %u, %u): ", here.block.x, here.block.y, here.block.z);
    std::vsnprintf(message + n, sizeof message - n, format, arguments);
    va_end(arguments);
}

static void yield_as(State state, int line) {
    fibers[current].state = state, fibers[current].line = line;
    if (!_setjmp(fibers[current].context)) _longjmp(scheduler, 1);
    here.thread = fibers[current].index;
}

// Ends the launch; this thread never goes on.
#define FAULT(...) (report(__VA_ARGS__), _longjmp(scheduler, 1))

bool wait_for_block(bool value, int line) {
    unsigned int turn = fibers[current].votes++ % 2, n = here.threads.x * here.threads.y * here.threads.z;
    fibers[current].vote[turn] = value;
    yield_as(AT_BARRIER, line);
    for (unsigned int i = 0; i < n; ++i)
        if (fibers[i].vote[turn]) return true;
    return false;
}

unsigned int show_to_warp(const void *value, unsigned int size, int line) {
    unsigned int turn = fibers[current].shuffles++ % 2;
    std::memcpy(fibers[current].shown[turn], value, size);
    yield_as(AT_SHUFFLE, line);
    return turn;
}

unsigned int word_shown(unsigned int lane, unsigned int turn, int i) {
    return fibers[current / 32 * 32 + lane].shown[turn][i];
}

static void add_range(Range range) {
    range.cells = (Cell *)mmap(nullptr, range.bytes / range.of_one * sizeof(Cell), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ranges[n_ranges++] = range;
}

void has_shared(const char *name, void *memory, unsigned long bytes, unsigned long of_one) {
    for (unsigned int i = n_ranges; i-- > 0;)
        if (ranges[i].start == memory) return;
    add_range({(char *)memory, nullptr, nullptr, bytes, of_one, WRITTEN, true, name});
}

void misaligned(const void *address) { FAULT("misaligned: thread %u has a vector at %p", current, address); }

// Bytes from a range to an access; 0 if it is within
static long distance(const Range &range, const char *where, unsigned long bytes) {
    if (where < range.start) return range.start - where;
    const char *stop = range.start + range.bytes;
    return where + bytes > stop ? where + bytes - stop : 0;
}

static Range &range_of(const char *where, unsigned long bytes, const char *does) {
    Range *nearest = last;
    for (Range *range = ranges; range < ranges + n_ranges && distance(*nearest, where, bytes) > 0; ++range)
        if (distance(*range, where, bytes) < distance(*nearest, where, bytes)) nearest = range;
    if (distance(*nearest, where, bytes) > 0)
        FAULT("beside: thread %u %s %s[%ld] of %lu", current, does, nearest->name,
              (where - nearest->start) / (long)nearest->of_one, nearest->bytes / nearest->of_one);
    return *(last = nearest);
}

static void touch(void *where, unsigned long bytes, bool writes) {
    char *address = (char *)where;
    if (++n_accesses > MOST_ACCESSES) FAULT("endless: thread %u comes to no barrier", current);
    if ((unsigned long)(address - stacks[0]) < sizeof stacks) return;
    if ((unsigned long)(address - (char *)&here) < sizeof here) return;
    const char *does = writes ? "writes" : "reads";
    Range &range = range_of(address, bytes, does);
    unsigned long first = (address - range.start) / range.of_one;
    for (unsigned long i = first; i * range.of_one < address - range.start + bytes; ++i) {
        unsigned long use = range.uses ? range.uses[i * range.of_one] : range.use;
        if (use < (writes ? WRITTEN : READ)) FAULT("beside: thread %u %s %s[%lu]", current, does, range.name, i);
        Cell &cell = range.cells[i];
        bool by_other_block = !range.is_shared && cell.wrote && cell.wrote < first_phase;
        if (by_other_block || (cell.wrote == phase && cell.writer != current))
            FAULT("race: thread %u %s %s[%lu], which thread %u%s wrote", current, does, range.name, i, cell.writer,
                  by_other_block ? " of another block" : "");
        if (writes) {
            by_other_block = !range.is_shared && cell.first_read && cell.first_read < first_phase;
            if (by_other_block || (cell.read == phase && cell.reader != current))
                FAULT("race: thread %u writes %s[%lu], which %s read", current, range.name, i,
                      by_other_block ? "another block" : "another thread");
            cell.wrote = phase, cell.writer = current;
        } else {
            if (range.is_shared && cell.wrote < first_phase)
                FAULT("uninitialized: thread %u reads %s[%lu]", current, range.name, i);
            cell.reader = cell.read == phase && cell.reader != current ? MANY : current;
            cell.read = phase;
            if (!cell.first_read) cell.first_read = phase;
        }
    }
}

extern "C" {
#define ACCESS(BYTES)                                                       \
    void __tsan_read##BYTES(void *address) { touch(address, BYTES, false); } \
    void __tsan_write##BYTES(void *address) { touch(address, BYTES, true); } \
    void __tsan_unaligned_read##BYTES(void *address) { touch(address, BYTES, false); } \
    void __tsan_unaligned_write##BYTES(void *address) { touch(address, BYTES, true); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __tsan_read_range(void *address, unsigned long bytes) { touch(address, bytes, false); }
void __tsan_write_range(void *address, unsigned long bytes) { touch(address, bytes, true); }
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void __ubsan_handle_type_mismatch_v1(void *, void *address) { misaligned(address); }
void __ubsan_handle_out_of_bounds(void *, void *index) {
    FAULT("beside: thread %u has index %ld into an array that is shorter", current, (long)index);
}
}

static void live() {
    while (true) {
        here.thread = fibers[current].index;
        body();
        yield_as(ENDED, 0);
    }
}

// Lets a thread run until it waits; false after a fault.
static bool resume(unsigned int number) {
    Fiber &fiber = fibers[current = number];
    if (_setjmp(scheduler)) return !*message;
    if (fiber.is_alive) _longjmp(fiber.context, 1);
    fiber.is_alive = true;
    static ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[number];
    context.uc_stack.ss_size = STACK;
    makecontext(&context, live, 0);
    setcontext(&context);
    return false;
}

// If all n threads from the first on are in this state, and waited at one line, they are ready again.
static bool release(State state, unsigned int first, unsigned int n) {
    for (unsigned int i = first; i < first + n; ++i)
        if (fibers[i].state != state || fibers[i].line != fibers[first].line) return false;
    for (unsigned int i = first; i < first + n; ++i) fibers[i].state = READY;
    return true;
}

// Lets all threads of a block run to their ends; false after a fault.
static bool run_block(unsigned int n) {
    first_phase = ++phase, n_accesses = 0;
    for (unsigned int i = 0; i < n; ++i) {
        Place index = {i % here.threads.x, i / here.threads.x % here.threads.y, i / here.threads.x / here.threads.y};
        fibers[i].index = index, fibers[i].state = READY, fibers[i].shuffles = fibers[i].votes = 0;
    }
    while (true) {
        for (unsigned int i = 0; i < n; ++i)
            if (fibers[i].state == READY && !resume(i)) return false;
        bool are_ready = false;
        for (unsigned int first = 0; first + 32 <= n; first += 32) are_ready |= release(AT_SHUFFLE, first, 32);
        if (are_ready) continue;
        if (release(ENDED, 0, n)) return true;
        if (!release(AT_BARRIER, 0, n)) break;
        ++phase, n_accesses = 0;
    }
    unsigned int one = 0, other = 0;
    while (other < n - 1 && fibers[other].state == fibers[one].state && fibers[other].line == fibers[one].line) ++other;
    const char *names[] = {"is ready", "waits for the block", "waits for its warp", "has ended"};
    report("divergent: thread %u %s at line %d, thread %u %s at line %d", one, names[fibers[one].state], fibers[one].line,
           other, names[fibers[other].state], fibers[other].line);
    return false;
}

// Runs n blocks of a grid, from number `first` on; null, or the first fault.
extern "C" const char *run_blocks(const Place *grid, const Place *block, unsigned long first, unsigned long n,
                                  unsigned long n_arrays, void (*kernel)(), void **values, const Range *arrays) {
    here.blocks = *grid, here.threads = *block, body = kernel, arguments = values;
    *message = n_ranges = phase = 0;
    last = ranges;
    for (unsigned long i = 0; i < n_arrays; ++i) add_range(arrays[i]);
    for (unsigned long i = first; i < first + n && !*message; ++i) {
        unsigned long rows = i / grid->x;
        here.block = {(unsigned int)(i % grid->x), (unsigned int)(rows % grid->y), (unsigned int)(rows / grid->y)};
        if (!run_block(block->x * block->y * block->z))
            for (Fiber &fiber : fibers) fiber.is_alive = false;
    }
    for (Range *range = ranges; range < ranges + n_ranges; ++range)
        munmap(range->cells, range->bytes / range->of_one * sizeof(Cell));
    return *message ? message : nullptr;
}
