/* MKL and OpenBLAS as their Python wheels have them, for tests of peers without these wheels: what bench/peers/wheel/blas.py calls, with a
 * naive product. It prints when it gets its threads, as a library may; OpenBLAS's core name is the number of threads that it got.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TRANSPOSED = 112, ROW_MAJOR = 101 };
static long threads;

static void product(int order, int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                    const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (order != ROW_MAJOR || beta != 0) return;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += (transpose_a == TRANSPOSED ? a[p * lda + i] : a[i * lda + p]) * (transpose_b == TRANSPOSED ? b[j * ldb + p] : b[p * ldb + j]);
      c[i * ldc + j] = alpha * sum;
    }
  }
}

void mkl_get_version_string(char* text, int room) {
  snprintf(text, room, "Intel(R) oneAPI Math Kernel Library Version 2099.1-Product Build 20990101");
}

void mkl_set_num_threads(const int* count) {
  threads = *count;
  printf("MKL has %ld threads\n", threads);
  fflush(stdout);
}

void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
                 float beta, float* c, int ldc) {
  product(order, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void scipy_openblas_set_num_threads64_(int count) { threads = count; }
const char* scipy_openblas_get_config64_(void) { return "OpenBLAS 9.9.9  USE64BITINT DYNAMIC_ARCH"; }
const char* scipy_openblas_get_corename64_(void) {
  static char name[40];
  snprintf(name, sizeof name, "%ld threads", threads);
  return name;
}

void scipy_cblas_sgemm64_(int order, int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                          const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  product(order, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
