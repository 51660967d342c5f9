/* The Weft plugin ABI, major 1: all that a device plugin and Weft know of each
 * other. C11, freestanding; nothing else crosses the line.
 *
 * A plugin is a shared object that exports one symbol, weft_plugin_query. It
 * answers with a table of *sections*; the device section (11 functions) is
 * enough to run any job, because Weft computes on the host what a device does
 * not. A device that computes adds the compute section (4 functions).
 *
 *     tier  sections                what it gives
 *     T0    device                  memory, copies, order
 *     T1    + compute               kernels for the primitives
 *     T2    + mem2, sync2           mapped memory, waits between streams
 *
 * Start from plugins/sdk/weft_plugin.hpp (C++ helper) and devices/null.
 *
 * Ground rules
 *  1. Every struct begins with `struct_size`, set by the OWNER of the memory.
 *     The writer touches only bytes below it; the reader takes fields beyond
 *     it as zero. In an array of such structs the next element is struct_size
 *     bytes further on. Structs without a size (weft_string, weft_key_value,
 *     weft_place, weft_section, weft_note) never change. Unknown flag bits are
 *     refused with WEFT_INVALID.
 *  2. Memory goes back to the side it came from, through the function beside
 *     the one that gave it; malloc and free are never mixed across the line.
 *  3. Handles are pointers to incomplete types, or 64-bit ids (memory). Weft
 *     never dereferences a weft_mem.
 *  4. Descriptors are valid for the call; the callee copies what it keeps.
 *     Strings are UTF-8, pointer and length.
 *  5. No exception, signal, exit, abort or stdio crosses the line; no
 *     environment, locale, floating-point mode or affinity is changed.
 *  6. Threads: device_info from any thread; open and close are serialised by
 *     Weft; mem_*, kernel_match and kernel_open are thread-safe. Calls that
 *     submit to one stream never overlap; stream_poll and stream_wait may come
 *     from any thread meanwhile. Threads that a plugin creates have signals
 *     masked, are named, and are joined in device_close.
 *  7. Poison, not hang: after a fault every later tick of that stream
 *     completes, and poll and wait return the error.
 *
 * Changes: docs/abi-changelog.md. Layout: plugins/abi/layout_test.cc.
 */
#ifndef WEFT_PLUGINS_ABI_WEFT_PLUGIN_H_
#define WEFT_PLUGINS_ABI_WEFT_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#include "plugins/abi/weft_op_ids.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_ABI_MAJOR 1u
#define WEFT_ABI_MINOR 0u
#define WEFT_PLUGIN_MAGIC 0x54464557u /* "WEFT" */

/* ---- Status ------------------------------------------------------------- */

typedef uint32_t weft_code;
#define WEFT_OK 0u
#define WEFT_UNSUPPORTED 1u /* normal, cheap, silent: Weft has a fallback */
#define WEFT_INVALID 2u
#define WEFT_RANGE 3u
#define WEFT_OOM 4u
#define WEFT_TIMEOUT 5u
#define WEFT_AGAIN 6u
#define WEFT_BUSY 7u
#define WEFT_CANCELED 8u
#define WEFT_PEER_LOST 9u
#define WEFT_AUTH 10u
#define WEFT_DEVICE_LOST 11u
#define WEFT_CORRUPT 12u
#define WEFT_INTERNAL 13u

#define WEFT_STATUS_RETRYABLE 1u
#define WEFT_STATUS_STICKY_STREAM 2u
#define WEFT_STATUS_STICKY_DEVICE 4u
#define WEFT_STATUS_RESTART_PROCESS 8u

/* Caller-owned. The callee always writes `code` (and returns it); `message`
 * only on an error. The caller does not clear it between calls. */
typedef struct weft_status {
  uint32_t struct_size;
  weft_code code;
  int32_t vendor_code;
  uint32_t flags;
  char message[224]; /* NUL-terminated where written */
} weft_status;

typedef struct weft_string {
  const char* data;
  uint64_t size;
} weft_string;

/* ---- Host services ------------------------------------------------------ */

#define WEFT_LOG_INFO 0u
#define WEFT_LOG_WARNING 1u
#define WEFT_LOG_ERROR 2u

/* What Weft offers a plugin. Callable from any thread of the plugin, at any
 * time between query and exit; none but parallel_for blocks. */
typedef struct weft_host_services {
  uint32_t struct_size;
  uint32_t reserved;
  void* context; /* first argument of every function */
  void (*log)(void* context, uint32_t level, weft_string message);
  /* Calls fn(arg, i) for i in [0, n) on the threads of the caller's rank, and
   * returns when all are done. */
  void (*parallel_for)(void* context, uint64_t n,
                       void (*fn)(void* arg, uint64_t i), void* arg);
  uint32_t (*thread_budget)(void* context);
  /* Value of an option that the job or the user set for this plugin; data is
   * null where it is not set. Instead of getenv. */
  weft_string (*option_get)(void* context, weft_string key);
  /* Wakes the worker that gave `token` with weft_stream_options. A token whose
   * worker is gone, or 0, does nothing. See WEFT_DEVICE_NOTIFIES. */
  void (*notify)(void* context, uint64_t token);
  uint64_t (*now_ns)(void* context); /* monotonic */
  void* (*alloc)(void* context, uint64_t bytes, uint64_t alignment);
  void (*free)(void* context, void* pointer);
  /* Records a broken invariant of the plugin; does not abort. */
  void (*assert_fail)(void* context, weft_string what);
} weft_host_services;

typedef struct weft_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t build_flags; /* WEFT_BUILD_* */
  const weft_host_services* services;
} weft_host;

#define WEFT_BUILD_ASAN 1u
#define WEFT_BUILD_TSAN 2u
#define WEFT_BUILD_UBSAN 4u

/* ---- Plugin and sections ------------------------------------------------ */

/* Sections evolve alone. Ids from 5 are reserved until something runs them. */
#define WEFT_SECTION_DEVICE 1u
#define WEFT_SECTION_COMPUTE 2u
#define WEFT_SECTION_MEM2 3u
#define WEFT_SECTION_SYNC2 4u
#define WEFT_SECTION_PEER 5u
#define WEFT_SECTION_EXEC 6u
#define WEFT_SECTION_COLL 7u
#define WEFT_SECTION_PROF 8u
#define WEFT_SECTION_DIAG 9u
#define WEFT_SECTION_TRANSPORT 10u

typedef struct weft_section {
  uint32_t id;
  uint32_t minor;
  const void* table; /* begins with struct_size */
} weft_section;

typedef struct weft_plugin {
  uint32_t struct_size;
  uint32_t magic; /* WEFT_PLUGIN_MAGIC */
  uint32_t abi_major;
  uint32_t abi_minor;
  weft_string name; /* device kind: "cpu" */
  weft_string vendor;
  weft_string build_id;
  uint64_t section_count;
  const weft_section* sections;
} weft_plugin;

/* The one symbol. Null: the plugin refuses this host. Cheap: no driver context,
 * no thread, no allocation that must be freed. May be called again. */
typedef const weft_plugin* (*weft_plugin_query_fn)(const weft_host* host);

/* ---- Device section: required ------------------------------------------- */

typedef struct weft_device weft_device;
typedef struct weft_stream weft_stream;
typedef uint64_t weft_mem; /* 0 is never valid */

/* Copies and launches have ended by the time their call comes back, so Weft
 * takes no ticks of its streams. */
#define WEFT_DEVICE_INLINE 1u
#define WEFT_DEVICE_HOST_MAPPED 2u /* mem2.host_map works on all its memory */
/* Calls notify with a stream's token after each tick of it that is done or in
 * error. Weft then neither polls its streams nor asks them for signals. */
#define WEFT_DEVICE_NOTIFIES 4u
/* Its memory is this process's own, mapped or not: Weft then counts it among
 * what the host must have. Follows from WEFT_DEVICE_HOST_MAPPED. */
#define WEFT_DEVICE_HOST_MEMORY 8u

typedef struct weft_device_info {
  uint32_t struct_size;
  uint32_t flags; /* WEFT_DEVICE_* */
  char name[64];
  char uuid[64];
  uint64_t memory_bytes;
  uint32_t alignment; /* of every allocation and sub-buffer, power of two */
  uint32_t max_streams;
  int32_t numa_node; /* -1: none */
  uint32_t reserved;
} weft_device_info;

typedef struct weft_key_value {
  weft_string key;
  weft_string value;
} weft_key_value;

typedef struct weft_device_options {
  uint32_t struct_size;
  uint32_t count;
  const weft_key_value* options; /* an unknown key is refused: WEFT_INVALID */
} weft_device_options;

#define WEFT_MEM_DEVICE 1u
#define WEFT_MEM_HOST 2u /* host memory that the device reaches well */

typedef struct weft_stream_options {
  uint32_t struct_size;
  int32_t priority;      /* higher first; 0 usual */
  uint64_t notify_token; /* for host services' notify; 0 = none */
} weft_stream_options;

/* One side of a copy: device memory (mem != 0, offset) or host (pointer). */
typedef struct weft_place {
  weft_mem mem;
  uint64_t offset;
  void* host;
} weft_place;

typedef struct weft_device_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* 1. `index` counts from 0; the first invalid one gives WEFT_RANGE. Creates
   * no device state. */
  weft_code (*device_info)(uint32_t index, weft_device_info* out,
                           weft_status* status);
  /* 2, 3. Close joins all threads; WEFT_BUSY while handles are live. */
  weft_code (*device_open)(uint32_t index, const weft_device_options* options,
                           weft_device** out, weft_status* status);
  weft_code (*device_close)(weft_device* device, weft_status* status);
  /* 4, 5. Zero bytes are legal. Contents are undefined. Out of memory is
   * WEFT_OOM and changes nothing. Free is immediate (Weft waited for the
   * ticks); an unknown or freed id is WEFT_INVALID. */
  weft_code (*mem_alloc)(weft_device* device, uint64_t bytes, uint32_t kind,
                         uint64_t alignment, weft_mem* out,
                         weft_status* status);
  weft_code (*mem_free)(weft_device* device, weft_mem mem, weft_status* status);
  /* 6, 7. A strictly in-order queue; at least two per device. Close drains. */
  weft_code (*stream_open)(weft_device* device,
                           const weft_stream_options* options,
                           weft_stream** out, weft_status* status);
  weft_code (*stream_close)(weft_stream* stream, weft_status* status);
  /* 8. Any direction. Bounds are checked (WEFT_RANGE); the sides may not
   * overlap. Host memory stays valid until the tick. */
  weft_code (*copy)(weft_stream* stream, const weft_place* dst,
                    const weft_place* src, uint64_t bytes, weft_status* status);
  /* 9. Names all work submitted so far; strictly increasing, first is >= 1. */
  weft_code (*stream_mark)(weft_stream* stream, uint64_t* tick,
                           weft_status* status);
  /* 10. The last tick that is done: its data is visible to the host and to
   * other streams. Monotone; an error of the stream is returned again and
   * again. */
  weft_code (*stream_poll)(weft_stream* stream, uint64_t* done,
                           weft_status* status);
  /* 11. WEFT_TIMEOUT leaves everything as it was. */
  weft_code (*stream_wait)(weft_stream* stream, uint64_t tick,
                           uint64_t timeout_ns, weft_status* status);
} weft_device_api;

/* ---- Compute section: all or none --------------------------------------- */

typedef struct weft_kernel weft_kernel;

/* Element types; the same ids as Weft's own. */
#define WEFT_F32 1u
#define WEFT_F16 2u
#define WEFT_BF16 3u
#define WEFT_F64 4u
#define WEFT_I8 5u
#define WEFT_U8 6u
#define WEFT_I16 7u
#define WEFT_I32 8u
#define WEFT_I64 9u
#define WEFT_BOOL 10u

#define WEFT_MAX_RANK 8u
#define WEFT_MAX_OPERANDS 64u /* per launch, inputs and outputs each */

typedef struct weft_tensor {
  uint32_t struct_size;
  uint32_t dtype; /* 0: an optional operand that is absent */
  uint32_t rank;
  uint32_t layout; /* 0 = dense row-major or as `strides` say */
  int64_t dims[WEFT_MAX_RANK];
  int64_t strides[WEFT_MAX_RANK]; /* in elements; 0 = broadcast */
  uint32_t flags;                 /* WEFT_TENSOR_* */
  uint32_t reserved;
} weft_tensor;

#define WEFT_TENSOR_CONSTANT 1u /* the same bytes at every launch */

#define WEFT_ATTR_INT 0u
#define WEFT_ATTR_FLOAT 1u
#define WEFT_ATTR_STRING 2u
#define WEFT_ATTR_INTS 3u
#define WEFT_ATTR_FLOATS 4u
#define WEFT_ATTR_STRINGS 5u
#define WEFT_ATTR_DTYPE 6u
#define WEFT_ATTR_TENSOR 7u

typedef struct weft_attr {
  uint32_t struct_size;
  uint32_t kind; /* WEFT_ATTR_* */
  weft_string name;
  int64_t i;      /* INT; DTYPE */
  double f;       /* FLOAT */
  weft_string s;  /* STRING */
  uint64_t count; /* INTS, FLOATS, STRINGS */
  const int64_t* ints;
  const double* floats;
  const weft_string* strings;
} weft_attr;

/* One use of an op, with the shapes of this shard. All attributes are present,
 * defaults included. */
typedef struct weft_op_desc {
  uint32_t struct_size;
  uint32_t op; /* WEFT_OP_*: plugins/abi/weft_op_ids.h */
  uint32_t version;
  uint32_t flags; /* none defined yet: 0 */
  uint64_t attr_count;
  const weft_attr* attrs;
  uint32_t input_count;
  uint32_t output_count;
  const weft_tensor* inputs;
  const weft_tensor* outputs;
} weft_op_desc;

#define WEFT_FIT_EXACT 1u
#define WEFT_FIT_NEEDS_DENSE 2u /* with dense operands it would be exact */

#define WEFT_DETERMINISTIC 1u     /* equal inputs, equal bits */
#define WEFT_NOT_DETERMINISTIC 2u /* Weft uses it only where a job allows */

typedef struct weft_match {
  uint32_t struct_size;
  uint32_t fit; /* WEFT_FIT_* */
  uint64_t workspace_bytes;
  uint32_t host_in; /* operands that must lie in host memory, bit i = input i */
  uint32_t host_out;
  uint32_t in_place; /* bit i: output 0 may be the memory of input i */
  uint32_t determinism;
  uint64_t cost_ns; /* hint; 0 = unknown */
} weft_match;

/* Where an operand lies at launch. `mem` of the kernel's device, or `host` for
 * operands in host_in / host_out. Dense where the description said so. Masks
 * cover the first 32 operands; later ones lie on the device.
 *
 * Updates of state (WEFT_OP_ASSIGN to WEFT_OP_LOSS_SCALE_UPDATE) run in place:
 * output i is the memory of input i, whatever `in_place` said. Those between
 * these two may have a multiplier of gradients (of WEFT_OP_EMA_UPDATE: of its
 * value), f32 [], as last operand; where it is NaN no state changes. They are
 * also offered for several variables at once: the state of each in turn, one
 * gradient for each, then what all share. A kernel_match that answers
 * WEFT_UNSUPPORTED gets them one by one. So look at input_count.
 *
 * Of WEFT_OP_REDUCE_TO_ALL and WEFT_OP_COPY_TO_ALL, too, output i may be the
 * memory of input i, for any of them, whatever `in_place` said. */
typedef weft_place weft_buffer;

typedef struct weft_compute_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* Pure, thread-safe, cheap. */
  weft_code (*kernel_match)(weft_device* device, const weft_op_desc* desc,
                            weft_match* out, weft_status* status);
  weft_code (*kernel_open)(weft_device* device, const weft_op_desc* desc,
                           weft_kernel** out, weft_status* status);
  /* Kernels are immutable: one may be launched on several streams at once. All
   * scratch comes as `workspace` (may be null where none was asked for). No
   * allocation, no wait. */
  weft_code (*kernel_launch)(weft_kernel* kernel, weft_stream* stream,
                             const weft_buffer* inputs,
                             const weft_buffer* outputs,
                             const weft_buffer* workspace, weft_status* status);
  weft_code (*kernel_close)(weft_kernel* kernel, weft_status* status);
} weft_compute_api;

/* ---- mem2 section: every function optional ------------------------------- */

typedef struct weft_mem_info {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t bytes_in_use;
  uint64_t peak_bytes;
  uint64_t allocations;
} weft_mem_info;

typedef struct weft_mem2_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* A pointer through which the host reads and writes [offset, offset + bytes)
   * until the memory is freed. */
  weft_code (*host_map)(weft_device* device, weft_mem mem, uint64_t offset,
                        uint64_t bytes, void** out, weft_status* status);
  weft_code (*mem_info)(weft_device* device, weft_mem_info* out,
                        weft_status* status);
} weft_mem2_api;

/* ---- sync2 section: every function optional ------------------------------ */

typedef struct weft_sync2_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* When the work submitted so far is done, bumps *word (a futex word of the
   * host) and wakes its sleepers: the worker then need not poll. */
  weft_code (*host_signal)(weft_stream* stream, uint32_t* word,
                           weft_status* status);
  /* Work submitted to `stream` from now on starts after `tick` of `other`. */
  weft_code (*stream_wait_tick)(weft_stream* stream, weft_stream* other,
                                uint64_t tick, weft_status* status);
} weft_sync2_api;

/* ---- ELF note ------------------------------------------------------------ */

/* Every plugin carries a note, owner "WEFT", type 1, in section ".note.weft",
 * so that Weft can refuse a file before it runs any of it. */
typedef struct weft_note {
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t build_flags; /* WEFT_BUILD_* */
  uint32_t isa;         /* WEFT_ISA_*: what the whole file needs */
  uint32_t roles;       /* bit (section id) for each section it offers */
} weft_note;

#define WEFT_ISA_BASELINE 0u
#define WEFT_ISA_AVX2 1u
#define WEFT_ISA_AVX512 2u

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_PLUGINS_ABI_WEFT_PLUGIN_H_ */
