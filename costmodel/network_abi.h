/* The C ABI between tracewright and its LibTorch plugin (libtracewright_torch.so): networks that score
 * candidates. Only network_model.cc (the caller) and torch/ (the plugin) include it. The plugin knows no policy: when
 * to train anew and with which options is decided by the caller.
 *
 * One exported function hands out the table of all others:
 *   const tw_network_api* tw_network_open(uint32_t version)   NULL if it does not speak that version
 * Every pointer stays the caller's. Functions that can fail return 0, or -1 with a text in
 * *error; a model is then as it was before. A model is used by one thread at a time. Results depend
 * on arguments and state only, never on time.
 */
#ifndef TRACEWRIGHT_NETWORK_ABI_H
#define TRACEWRIGHT_NETWORK_ABI_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TW_NETWORK_ABI_VERSION 4

typedef struct tw_network tw_network;

/* What a network makes of the rows of a candidate. */
enum {
  TW_NETWORK_MLP = 0,       /* rows are encoded one by one and summed */
  TW_NETWORK_TREE_GRU = 1,  /* rows are the nodes of a tree in post-order; the last column says how many rows further on
                               the parent is, 0 for a root */
  TW_NETWORK_ATTENTION = 2, /* rows are a sequence */
  TW_NETWORK_MLP_REFERENCE = 3 /* as MLP, with MetaSchedule's widths and scaling */
};

typedef struct {
  char text[512]; /* zero-terminated, cut if longer */
} tw_network_error;

/* Ragged matrices: candidate c has rows first_row[c] .. first_row[c + 1] of `columns` floats,
 * row-major. */
typedef struct {
  const float* values;
  const int32_t* first_row; /* candidates + 1 entries */
  int32_t candidates;
} tw_network_batch;

typedef struct {
  tw_network_batch batch;
  const float* speed;   /* per candidate: relative speed in [0, 1], to be ranked high; 0 = failed */
  const int32_t* group; /* per candidate; only within one group they are ranked */
  const float* base;    /* per candidate: the score to which the network's is added; NULL: zeros. A network that was
                           not trained yet begins with scores of 0 then. */
} tw_network_data;

/* What is learned of the relative speed: the order within a group, the speed itself, or the order of all by LambdaRank,
 * which also compares candidates of different groups. */
enum { TW_NETWORK_RANK = 0, TW_NETWORK_REGRESSION = 1, TW_NETWORK_LAMBDA_RANK = 2 };

typedef struct {
  int32_t objective;      /* TW_NETWORK_RANK, ... */
  int32_t from_scratch;   /* 1: begin with new random weights; 0: go on from the present ones */
  int32_t max_epochs;     /* passes over the data */
  int32_t patience;       /* epochs without a better held-out order before it stops; 0: no hold-out */
  int32_t held_out_every; /* every n-th candidate is held out if patience > 0 */
  int32_t batch_size;     /* candidates per step */
  float learning_rate;    /* at the start; falls over the epochs */
  float weight_decay;
  float clip_norm; /* of the gradient */
  uint64_t seed;   /* of the order of candidates and of new weights */
} tw_network_training;

typedef struct {
  int32_t epochs;     /* run */
  int32_t best_epoch; /* whose weights were kept, from 1 */
  float loss;         /* training loss of the last epoch */
  float
      held_out_error; /* of the best epoch: share of held-out pairs in the wrong order, or the squared error; 1: none */
} tw_network_report;

typedef struct {
  uint32_t version;
  /* A model of a kind (TW_NETWORK_MLP, ...) with random weights that depend on the seed; NULL on error. Scores are all
   * 0 until it has been trained. */
  tw_network* (*create)(int32_t kind, int32_t columns, uint64_t seed, tw_network_error* error);
  void (*destroy)(tw_network* model);
  int32_t (*train)(tw_network* model, const tw_network_data* data, const tw_network_training* options,
                   tw_network_report* report, tw_network_error* error);
  /* One score per candidate into `scores`. */
  int32_t (*predict)(const tw_network* model, const tw_network_batch* batch, float* scores, tw_network_error* error);
  /* Bytes that save() writes. */
  int64_t (*saved_bytes)(const tw_network* model);
  void (*save)(const tw_network* model, void* bytes);
  int32_t (*load)(tw_network* model, const void* bytes, int64_t size, tw_network_error* error);
} tw_network_api;

typedef const tw_network_api* (*tw_network_open_function)(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
