// Adam on all parameters, one pass over the vectors  [Kingma & Ba 2015, algorithm 1]:
//
//   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   w = w - step_size * m / (sqrt(v) * inv_sqrt_correction + eps)
//
// step_size = lrate / (1 - beta1^t),  inv_sqrt_correction = 1 / sqrt(1 - beta2^t)
// Threads: each takes every (gridDim.x * blockDim.x)-th parameter, so that adjacent threads read adjacent values.
extern "C" __global__ void adam(ACC *w, ACC *m, ACC *v, const ACC *grad, long long n, double beta1,
                                double beta2, double eps, double step_size, double inv_sqrt_correction) {
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) {
        ACC g = grad[i];
        ACC mean = (ACC)beta1 * m[i] + (ACC)(1.0 - beta1) * g;
        ACC square = (ACC)beta2 * v[i] + (ACC)(1.0 - beta2) * g * g;
        w[i] -= (ACC)step_size * mean / (sqrt(square) * (ACC)inv_sqrt_correction + (ACC)eps);
        m[i] = mean;
        v[i] = square;
    }
}
