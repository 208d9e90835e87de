// cuBLAS's functions as ctypes calls them: with the argument types of cublas_api.h. They write down what they are given.

typedef long long Int;
static Int seen[32];
static int count;

static void see(Int value) { seen[count++] = value; }

extern "C" {

Int *last_call() { return seen; }

int refuses = 0, handles = 0;

int cublasCreate_v2(void **handle) {
    *handle = (void *)(Int)(0x700000000000 + ++handles);
    return refuses;
}

int cublasSetStream_v2(void *handle, void *stream) {
    count = 0, see((Int)handle), see((Int)stream);
    return 0;
}

int cublasSetWorkspace_v2(void *handle, void *workspace, unsigned long size) {
    see((Int)handle), see((Int)workspace), see((Int)size);  // after the call before it, whose memory it takes
    return 0;
}

const char *cublasGetStatusString(int status) { return status == 7 ? "CUBLAS_STATUS_INVALID_VALUE" : "?"; }

int cublasGemmEx(void *handle, int transa, int transb, int m, int n, int k, const void *alpha, const void *a, int atype,
                 int lda, const void *b, int btype, int ldb, const void *beta, void *c, int ctype, int ldc, int compute,
                 int algorithm) {
    count = 0;
    for (Int each : {(Int)handle, (Int)transa, (Int)transb, (Int)m, (Int)n, (Int)k, (Int)alpha, (Int)a, (Int)atype,
                     (Int)lda, (Int)b, (Int)btype, (Int)ldb, (Int)beta, (Int)c, (Int)ctype, (Int)ldc, (Int)compute,
                     (Int)algorithm})
        see(each);
    return refuses;
}

int cublasGemmStridedBatchedEx(void *handle, int transa, int transb, int m, int n, int k, const void *alpha,
                               const void *a, int atype, int lda, long long stridea, const void *b, int btype, int ldb,
                               long long strideb, const void *beta, void *c, int ctype, int ldc, long long stridec,
                               int batch, int compute, int algorithm) {
    count = 0;
    for (Int each : {(Int)handle, (Int)transa, (Int)transb, (Int)m, (Int)n, (Int)k, (Int)alpha, (Int)a, (Int)atype,
                     (Int)lda, stridea, (Int)b, (Int)btype, (Int)ldb, strideb, (Int)beta, (Int)c, (Int)ctype, (Int)ldc,
                     stridec, (Int)batch, (Int)compute, (Int)algorithm})
        see(each);
    return refuses;
}
}
