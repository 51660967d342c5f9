/* The transport section of the Weft plugin ABI: how the ranks of a job send
 * bytes to each other. C11, freestanding. A plugin may offer this section
 * alone, beside others, or not at all; WEFT_SECTION_TRANSPORT names it.
 *
 *     rank 0 (connects)                     rank 1 (listens)
 *     domain_open                           domain_open
 *                      <-- address ---      listen
 *     connect(address) -> ep
 *     poll: CONNECTED(ep)                   poll: ACCEPTED(ep, rank 0)
 *     post(RECV ep tag 7 -> buffer)         post(SEND ep tag 7 <- bytes)
 *     poll: COMPLETED(cookie, OK)           poll: COMPLETED(cookie, OK)
 *     ep_close(ep)                          poll: EP_DOWN(ep, CANCELED)
 *     poll: EP_DOWN(ep, OK)
 *
 * A *domain* is one rank's side of the job; an *endpoint* is its end of one
 * connection. Nothing here blocks but `wait`: what takes time ends in an event.
 * The plugin does no bootstrap of its own; Weft carries addresses and keys.
 * Start from plugins/sdk/weft_transport.hpp and transport/loopback.
 *
 * Rules, besides those of weft_plugin.h
 *  1. Matching: a RECV gets the SEND of the same endpoint and the same 64-bit
 *     tag; first posted, first matched, on both sides. No wildcards. Between
 *     tags, and between endpoints, there is no order.
 *  2. Every op for which `post` returned WEFT_OK completes exactly once: with
 *     WEFT_OK; with an error; with WEFT_CANCELED where its endpoint was closed,
 *     by either side; with WEFT_PEER_LOST where the peer is gone. An op for
 *     which `post` returned anything else does not exist.
 *  3. Memory: that of a RECV is the plugin's until it completes. That of a SEND
 *     too, except up to eager_max bytes, which are copied before `post`
 *     returns. Of another size than its SEND, a RECV takes no byte: both
 *     complete with WEFT_INVALID and a message that names both sizes.
 *  4. Bounds: a SEND of at most eager_max bytes uses one credit of its
 *     endpoint, and gives it back when it completes; URGENT ones have as many
 *     credits of their own. A larger SEND waits at its side for the RECV, then
 *     goes straight into it. What is above a bound is WEFT_AGAIN, and may be
 *     posted again after a completion on the endpoint.
 *  5. Events of an endpoint: ACCEPTED or CONNECTED first; EP_DOWN last, after
 *     the completions of all its ops, and exactly once where the endpoint was
 *     up. It is dead from then on: a new connection is a new endpoint.
 *  6. Hello: both sides of a new connection compare job, epoch, world, wire
 *     versions and plan hash, and check the peer's rank and incarnation. Where
 *     they disagree there is no connection: the connecting side gets CONNECTED
 *     with an error, the listening one REFUSED, each with a reason and a
 *     message that has both values.
 *  7. A peer that dies without a word is reported within peer_timeout_ms.
 *  8. Threads: all functions of a domain may be called at once, from any
 *     thread, but for: `poll` does not overlap with `poll`, nor domain_close
 *     with anything.
 *  9. What comes over a wire is checked before it is used: a peer can break its
 *     own connection, nothing else.
 *
 * Changes: docs/abi-changelog.md. Layout: plugins/abi/transport_layout.inc.
 */
#ifndef WEFT_PLUGINS_ABI_WEFT_TRANSPORT_H_
#define WEFT_PLUGINS_ABI_WEFT_TRANSPORT_H_

#include "plugins/abi/weft_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_domain weft_domain;
typedef uint64_t weft_endpoint; /* of its domain; 0 is none; never used again */
typedef uint64_t weft_mr;       /* shared memory of its domain; 0 is none */

/* ---- What a transport says of itself --------------------------------------
 */

/* The shared-memory functions are there and work. */
#define WEFT_TRANSPORT_SHARED_MEMORY 1u
/* Connects ranks of one process; its addresses mean nothing in another. */
#define WEFT_TRANSPORT_IN_PROCESS 2u

/* Who else could read, or pretend. Higher is better. */
#define WEFT_SECURITY_NONE 0u /* whoever reaches the address */
#define WEFT_SECURITY_USER 1u /* processes of the same user on this machine */
#define WEFT_SECURITY_JOB 2u  /* both sides prove that they have its key */
#define WEFT_SECURITY_PRIVATE 3u /* and nobody between them can read */

typedef struct weft_transport_info {
  uint32_t struct_size;
  uint32_t flags; /* WEFT_TRANSPORT_* */
  char name[64];
  /* Ranks whose strings are equal may reach each other through this plugin. */
  char locality[128];
  uint32_t wire_version; /* of the plugin's own frames */
  uint32_t security;     /* WEFT_SECURITY_* */
  uint64_t eager_max;
  uint32_t eager_credits; /* of an endpoint, each way; as many for URGENT */
  /* RECVs of an endpoint that are posted and not complete, at most; and of the
   * SENDs above eager_max as many. */
  uint32_t max_inflight;
} weft_transport_info;

/* ---- Domain ---------------------------------------------------------------
 */

/* Some bytes of the plugin's own choice: an address, a key. */
#define WEFT_BLOB_MAX 256u
typedef struct weft_blob {
  uint32_t struct_size;
  uint32_t size; /* used of `bytes` */
  uint8_t bytes[WEFT_BLOB_MAX];
} weft_blob;

typedef struct weft_domain_config {
  uint32_t struct_size;
  uint32_t rank;
  uint32_t world;        /* number of ranks; rank < world, or WEFT_INVALID */
  uint32_t wire_version; /* of what Weft itself sends: peers have the same */
  weft_string job;       /* at most 128 bytes: peers have the same */
  uint64_t epoch;        /* of the job: peers have the same */
  /* How many lives of this rank came before this one. */
  uint64_t incarnation;
  uint64_t plan_hash; /* of what all ranks agreed on: peers have the same */
  /* Host services' notify is called with it, from any thread, once an event has
   * come for `poll` (at least once after each `poll` that left the queue
   * empty). 0: nobody wants to know. */
  uint64_t notify_token;
  uint32_t peer_timeout_ms; /* 0: as the plugin thinks best */
  uint32_t option_count;
  const weft_key_value* options; /* an unknown key is refused: WEFT_INVALID */
  /* Of the job, at most 64 bytes, never sent or logged. A plugin of the level
   * WEFT_SECURITY_JOB lets nobody in who cannot prove to have it. Empty: there
   * is none. */
  weft_string secret;
} weft_domain_config;

typedef struct weft_connect_options {
  uint32_t struct_size;
  uint32_t rank; /* who should be there: above the caller's, below world */
  const weft_blob* address;
  uint64_t cookie; /* comes back with CONNECTED */
} weft_connect_options;

/* ---- Operations ------------------------------------------------------------
 */

#define WEFT_TRANSPORT_SEND 1u
#define WEFT_TRANSPORT_RECV 2u

/* Of a SEND of at most eager_max bytes: control, which goes before bulk. A tag
 * has it on all its SENDs or on none. */
#define WEFT_TRANSPORT_URGENT 1u

typedef struct weft_transport_op {
  uint32_t struct_size;
  uint32_t kind;  /* WEFT_TRANSPORT_SEND, _RECV */
  uint32_t flags; /* WEFT_TRANSPORT_URGENT */
  uint32_t reserved;
  weft_endpoint ep;
  uint64_t tag;
  void* host;      /* host memory; may be null where length is 0 */
  uint64_t length; /* bytes; 0 is legal, and matches a RECV of 0 */
  uint64_t cookie; /* comes back with COMPLETED */
} weft_transport_op;

/* Of mem_alloc_shared and mem_map: peers write it, too. */
#define WEFT_SHARED_WRITABLE 1u

/* Of ep_close: the peer sees what it would see if this process died
 * (WEFT_PEER_LOST), not an orderly end (WEFT_CANCELED). */
#define WEFT_EP_ABORT 1u

/* ---- Events ----------------------------------------------------------------
 */

#define WEFT_EVENT_COMPLETED 1u /* an op: ep, tag, cookie, length, op_kind */
#define WEFT_EVENT_ACCEPTED 2u  /* a new endpoint: ep, rank, incarnation */
/* The result of connect: ep, rank, incarnation, cookie. With an error there is
 * no endpoint, and no EP_DOWN comes. WEFT_PEER_LOST: nobody is there. */
#define WEFT_EVENT_CONNECTED 3u
/* ep, rank. Code WEFT_OK: closed here; WEFT_CANCELED: closed by the peer;
 * WEFT_PEER_LOST: the peer or the way to it is gone. */
#define WEFT_EVENT_EP_DOWN 4u
#define WEFT_EVENT_REFUSED 5u /* somebody else's connect: rank, incarnation */

/* Why a hello was refused: event REFUSED, and CONNECTED with WEFT_INVALID. */
#define WEFT_REFUSED_NOT 0u
#define WEFT_REFUSED_JOB 1u
#define WEFT_REFUSED_EPOCH 2u
#define WEFT_REFUSED_WORLD 3u
/* Not the one expected, outside of world, or not below the listener's. */
#define WEFT_REFUSED_RANK 4u
/* Not above the highest that this domain has seen of that rank. */
#define WEFT_REFUSED_INCARNATION 5u
#define WEFT_REFUSED_WIRE 6u /* either wire version */
#define WEFT_REFUSED_PLAN 7u

typedef struct weft_transport_event {
  uint32_t struct_size;
  uint32_t kind; /* WEFT_EVENT_* */
  weft_endpoint ep;
  uint64_t cookie;
  uint64_t tag;
  uint64_t length;  /* bytes that moved */
  uint32_t op_kind; /* WEFT_TRANSPORT_SEND, _RECV */
  uint32_t rank;    /* the peer's */
  uint64_t incarnation;
  weft_code code;
  uint32_t reason;   /* WEFT_REFUSED_* */
  char message[224]; /* written where code is not WEFT_OK; NUL-terminated */
} weft_transport_event;

typedef struct weft_transport_stats {
  uint32_t struct_size;
  uint32_t endpoints; /* up now */
  uint64_t sent_messages;
  uint64_t sent_bytes;
  uint64_t received_messages;
  uint64_t received_bytes;
  uint64_t eager_messages; /* of sent_messages */
  uint64_t again;          /* posts answered WEFT_AGAIN */
  uint64_t shared_bytes;   /* of mem_alloc_shared, not freed */
} weft_transport_stats;

/* ---- The table --------------------------------------------------------------
 */

typedef struct weft_transport_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* 1. Of the domain, whose options may matter, or of the plugin (null). */
  weft_code (*info)(weft_domain* domain, weft_transport_info* out,
                    weft_status* status);
  /* 2. Binds nothing that other machines reach unless an option says so. */
  weft_code (*domain_open)(const weft_domain_config* config, weft_domain** out,
                           weft_status* status);
  /* 3. The first call closes every endpoint, and nothing new is taken from then
   * on (WEFT_CANCELED). WEFT_BUSY, and the domain stays, while events have not
   * been polled or shared memory is allocated or mapped. */
  weft_code (*domain_close)(weft_domain* domain, weft_status* status);
  /* 4. Once listening, the address stays the same. */
  weft_code (*listen)(weft_domain* domain, weft_blob* out, weft_status* status);
  /* 5. Returns at once; CONNECTED tells. An address that cannot be one, or a
   * rank that is not above the caller's, is WEFT_INVALID. */
  weft_code (*connect)(weft_domain* domain, const weft_connect_options* options,
                       weft_endpoint* out, weft_status* status);
  /* 6. Completes this side's ops with WEFT_CANCELED; EP_DOWN comes. Closing is
   * no flush: what has not met its RECV is dropped. */
  weft_code (*ep_close)(weft_domain* domain, weft_endpoint ep, uint32_t flags,
                        weft_status* status);
  /* 7. From the event ACCEPTED or CONNECTED on. Never blocks. WEFT_AGAIN: at a
   * bound. WEFT_PEER_LOST, WEFT_CANCELED: the endpoint is down. */
  weft_code (*post)(weft_domain* domain, const weft_transport_op* op,
                    weft_status* status);
  /* 8. Writes up to `max` events (an array of the caller's structs) and their
   * number. Progress does not depend on it. */
  weft_code (*poll)(weft_domain* domain, weft_transport_event* events,
                    uint32_t max, uint32_t* count, weft_status* status);

  /* Optional. 9. Sleeps until `poll` has something, or WEFT_TIMEOUT. */
  weft_code (*wait)(weft_domain* domain, uint64_t timeout_ns,
                    weft_status* status);
  /* 10. */
  weft_code (*stats)(weft_domain* domain, weft_transport_stats* out,
                     weft_status* status);

  /* Optional, all or none: memory that the peer of an endpoint sees. Peers
   * read; only the owner writes, unless the memory is WEFT_SHARED_WRITABLE.
   * What one wrote is visible to another once a message posted after the write
   * has reached it; that it has been read, only a message of the reader tells.
   * Where only the owner writes, a plugin maps it so that a peer's write
   * faults, where it can. */
  /* 11, 12. Zeroed, aligned to 64 bytes or more; at least one byte. It lasts
   * until its owner has freed it and the last peer has unmapped it. `flags`:
   * WEFT_SHARED_*; others are WEFT_INVALID. */
  weft_code (*mem_alloc_shared)(weft_domain* domain, uint64_t bytes,
                                uint32_t flags, weft_mr* out, void** host,
                                weft_status* status);
  weft_code (*mem_free_shared)(weft_domain* domain, weft_mr mr,
                               weft_status* status);
  /* 13. For any peer of the domain; good until it is freed. */
  weft_code (*mem_pack)(weft_domain* domain, weft_mr mr, weft_blob* key,
                        weft_status* status);
  /* 14, 15. `ep` leads to the owner. The mapping survives the endpoint. A key
   * of another's, or one of memory that is freed, is WEFT_INVALID. `flags` are
   * those of its owner: without WEFT_SHARED_WRITABLE it is to be read only. */
  weft_code (*mem_map)(weft_domain* domain, weft_endpoint ep,
                       const weft_blob* key, void** host, uint64_t* bytes,
                       uint32_t* flags, weft_status* status);
  weft_code (*mem_unmap)(weft_domain* domain, const void* host,
                         weft_status* status);

  /* Optional, both or none: for a host whose thread sleeps on a word of its own
   * and can sleep on two at once, so that a peer wakes it without a thread in
   * between. (`notify` goes on to tell what no peer's wake does.) */
  /* 16. Before the last look, by `poll`. From then on `word`, a futex that
   * other processes wake too (not FUTEX_PRIVATE), differs from `seen`, and who
   * waits for it is woken, once `poll` may have something. A domain whose host
   * has called it once may leave progress to `poll` while there are such
   * calls. */
  weft_code (*sleep_begin)(weft_domain* domain, const uint32_t** word,
                           uint32_t* seen, weft_status* status);
  /* 17. Awake. Once after each of the above, by the same thread. */
  weft_code (*sleep_end)(weft_domain* domain, weft_status* status);
} weft_transport_api;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_PLUGINS_ABI_WEFT_TRANSPORT_H_ */
