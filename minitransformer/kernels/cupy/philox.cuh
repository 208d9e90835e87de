// Counter-based random numbers: Philox 4x32-10  [Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"].
//
// philox(counter, key) mixes 128 bits beyond recognition, so any thread computes the draws of any element by itself,
// forward and backward alike, and no dropout mask is ever stored.
//   key      the seed, update and micro-batch, mixed by the caller into 64 bits
//   counter  column / 8, row (64 bits), site: which dropout of the model this is
// Each call gives eight draws of 16 bits, for eight adjacent columns; a value is kept if its draw >= threshold.

__device__ inline void philox(unsigned int c[4], unsigned int key0, unsigned int key1) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        unsigned long long product0 = 0xD2511F53ull * c[0];
        unsigned long long product1 = 0xCD9E8D57ull * c[2];
        unsigned int high0 = (unsigned int)(product0 >> 32), high1 = (unsigned int)(product1 >> 32);
        c[0] = high1 ^ c[1] ^ key0;
        c[2] = high0 ^ c[3] ^ key1;
        c[1] = (unsigned int)product1;
        c[3] = (unsigned int)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

struct Dropout {
    long long key, site, threshold;  // threshold = round(65536 * p_drop); 0 keeps everything
    double factor;              // 1 / (1 - p_drop)
};

// values[i] = values[i] * keep / (1 - p_drop) for columns column..column+7 of the row
__device__ inline void drop8(ACC *values, const Dropout &dropout, long long row, long long column) {
    if (dropout.threshold == 0) return;
    unsigned int c[4] = {(unsigned int)(column / 8), (unsigned int)row, (unsigned int)((unsigned long long)row >> 32),
                         (unsigned int)dropout.site};
    philox(c, (unsigned int)dropout.key, (unsigned int)((unsigned long long)dropout.key >> 32));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        unsigned int draw = (c[i / 2] >> (16 * (i % 2))) & 0xffffu;
        values[i] = draw >= dropout.threshold ? values[i] * (ACC)dropout.factor : (ACC)0;
    }
}

// How a kernel takes a Dropout: four arguments, put together by DROPOUT.
#define DROPOUT_ARGUMENTS \
    long long dropout_key, long long site, long long threshold, double factor
#define DROPOUT \
    Dropout { dropout_key, site, threshold, factor }
