/* A transport as a flow of a scenario: transport = "c:path/to/stack.c".
 *
 * A stack fills in a `struct tailback_stack` and ends its source with TAILBACK_STACK(its_name). tailback calls it without
 * sockets and without a clock: it receives datagrams and the time, and gives datagrams and the time at which it wants to be
 * called. A connection carries one stream each way, of bytes that mean nothing. All randomness comes from `seed`.
 *
 * Licensed under Apache-2.0 or MIT, as the rest of tailback.
 */
#ifndef TAILBACK_STACK_H
#define TAILBACK_STACK_H

#include <stddef.h>
#include <stdint.h>

/* The version of this interface. A library of another version is refused. */
#define TAILBACK_STACK_ABI 1
/* A time that never comes. */
#define TAILBACK_NEVER UINT64_MAX

/* What a connection is made of. */
struct tailback_setup {
    uint64_t now_ns;         /* simulated time */
    uint64_t seed;           /* the same for both ends; another one for each connection */
    uint64_t send_buffer;    /* what the stream to send may hold unacknowledged; 0: the stack's own */
    uint64_t receive_buffer; /* what the peer may send beyond what was read; 0: the stack's own */
    const char *cc;          /* congestion control, one of the stack's */
    uint32_t most_payload;   /* largest datagram, without IP and UDP headers */
    uint32_t is_server;      /* else the client, which connects */
};

/* The ECN field of a packet, as in its IP header. */
enum tailback_ecn { TAILBACK_NOT_ECT = 0, TAILBACK_ECT1 = 1, TAILBACK_ECT0 = 2, TAILBACK_CE = 3 };

/* How far an end has come; `progress` returns their sum. */
enum tailback_progress {
    TAILBACK_ESTABLISHED = 1,   /* data may flow */
    TAILBACK_PEER_FINISHED = 2, /* the peer has finished its stream, and all of it was read */
    TAILBACK_ACKNOWLEDGED = 4,  /* all this end wrote, with its end, is acknowledged */
    TAILBACK_CLOSED = 8,        /* the connection is over */
    TAILBACK_FAILED = 16        /* it ended although neither side closed it */
};

/* What the stack says of its sender. All is zero before the call; zero: unknown. */
struct tailback_state {
    uint64_t cwnd, ssthresh, in_flight; /* bytes */
    uint64_t srtt_ns, rtt_ns, rtt_min_ns;
    uint64_t pacing_bps;
    uint64_t packets_sent, packets_lost, congestion_events, bytes_acked;
};

/* What a stack is. The nine calls from `on_datagram` to `progress` concern one end of a connection. */
struct tailback_stack {
    uint32_t abi;           /* TAILBACK_STACK_ABI */
    const char *version;    /* of its code */
    const char *algorithms; /* its congestion controls, with blanks between; the first is the default of a candidate */

    /* Make one end; NULL: it cannot. */
    void *(*connect)(const struct tailback_setup *setup);
    /* The end is not used any more. */
    void (*free)(void *end);

    /* A datagram arrived. */
    void (*on_datagram)(void *end, uint64_t now_ns, const uint8_t *datagram, size_t bytes, enum tailback_ecn ecn);
    /* Write the next datagram into the buffer and return its bytes; 0: there is none now. */
    size_t (*poll_transmit)(void *end, uint64_t now_ns, uint8_t *buffer, size_t room, enum tailback_ecn *ecn);
    /* When it wants to be called, or TAILBACK_NEVER. */
    uint64_t (*next_timeout)(void *end);
    /* That time has come. */
    void (*on_timeout)(void *end, uint64_t now_ns);
    /* Take at most this many bytes to send; returns how many. */
    uint64_t (*write)(void *end, uint64_t most);
    /* Nothing will be written any more. */
    void (*finish)(void *end);
    /* Read what has arrived in order; returns how many bytes, each once: all calls together no more than the peer wrote. */
    uint64_t (*read)(void *end, uint64_t now_ns);
    /* End the connection at once, whatever is under way. */
    void (*close)(void *end, uint64_t now_ns);
    /* How far it has come: a sum of `enum tailback_progress`. */
    uint32_t (*progress)(void *end);

    /* What it says of its sender, also around each datagram: one that sends on with in_flight at cwnd is stopped. NULL:
     * nothing. */
    void (*state)(void *end, struct tailback_state *state);
};

/* Hands the stack to tailback; once, outside of functions. */
#define TAILBACK_STACK(stack)                                                                                              \
    __attribute__((visibility("default"))) const struct tailback_stack *tailback_stack(void)                               \
    {                                                                                                                      \
        return &(stack);                                                                                                   \
    }                                                                                                                      \
    struct tailback_stack

#endif
