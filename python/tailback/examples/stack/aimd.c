/* A reliable transport in one file: numbered datagrams, acknowledged one by one, and a window that grows by one datagram a
 * round trip and halves on a loss (Jacobson 1988). It has no handshake beyond its first datagram and its answer.
 *
 * A datagram is a kind, a number and payload:
 *   DATA number   one datagram of the stream; each but the last carries the same number of bytes
 *   LAST number   the stream ends after this one, whose payload may be empty
 *   ACK number    `number` is the next datagram missing, `got` the one that caused this ACK
 *   BYE           the connection is over
 * An example of tailback_stack.h and no protocol for a network: nothing in it is protected.
 */
#include "tailback_stack.h"

#include <stdlib.h>
#include <string.h>

enum { DATA = 1, LAST, ACK, BYE, HELLO, HEADER = 9, MOST = 1 << 16 };
#define MS 1000000ull

/* A datagram that was sent, or came ahead of one that is missing; by its number modulo MOST. */
struct slot {
    uint64_t sent_ns;
    uint8_t is_acked, is_lost, is_resent, has_arrived;
};

struct end {
    int is_server, is_up, hello_due, is_over, bye_due;
    uint32_t payload;             /* bytes of a datagram's payload */
    uint64_t limit;               /* datagrams that may be unacknowledged, whatever the window says */
    /* What it sends. */
    uint64_t written, next, una;  /* bytes; datagrams */
    int has_finished, last_sent;
    uint64_t last;                /* number of the LAST datagram */
    double cwnd;                  /* datagrams */
    uint64_t ssthresh, flight, recover, losses, lost, sent;
    uint64_t srtt, rttvar, rtt, rtt_min, timer;
    int backoff;
    /* What it receives. */
    uint64_t expected, ready, read; /* datagrams; bytes */
    int ack_due, peer_ends;
    uint64_t ack_of, peer_last, last_bytes;
    struct slot out[MOST], in[MOST];
};

static uint64_t rto(const struct end *end) {
    uint64_t rto = end->srtt ? end->srtt + 4 * end->rttvar : 1000 * MS;
    rto = rto < 200 * MS ? 200 * MS : rto;
    return rto << (end->backoff > 6 ? 6 : end->backoff);
}

static void arm(struct end *end, uint64_t now) {
    int waits = end->flight > 0 || (!end->is_server && !end->is_up);
    end->timer = waits && !end->is_over ? now + rto(end) : TAILBACK_NEVER;
}

static void *connect_end(const struct tailback_setup *setup) {
    struct end *end = calloc(1, sizeof *end);
    if (end == NULL)
        return NULL;
    end->is_server = (int)setup->is_server;
    end->hello_due = !end->is_server;
    end->payload = setup->most_payload - HEADER;
    end->limit = (setup->send_buffer ? setup->send_buffer : 4000000) / end->payload;
    end->limit = end->limit > MOST / 2 ? MOST / 2 : end->limit;
    end->cwnd = 10;
    end->ssthresh = UINT64_MAX;
    end->timer = TAILBACK_NEVER;
    return end;
}

static void halve(struct end *end) {
    end->losses++;
    end->recover = end->next;
    end->ssthresh = end->flight / 2 > 2 ? end->flight / 2 : 2;
    end->cwnd = (double)end->ssthresh;
}

static void on_rtt(struct end *end, uint64_t rtt) {
    uint64_t off = rtt > end->srtt ? rtt - end->srtt : end->srtt - rtt; /* RFC 6298 section 2 */
    end->rttvar = end->srtt ? (3 * end->rttvar + off) / 4 : rtt / 2;
    end->srtt = end->srtt ? (7 * end->srtt + rtt) / 8 : rtt;
    end->rtt = rtt;
    end->rtt_min = end->rtt_min == 0 || rtt < end->rtt_min ? rtt : end->rtt_min;
}

static void on_ack(struct end *end, uint64_t now, uint64_t missing, uint64_t got) {
    if (missing > end->next || got >= end->next)
        return;
    struct slot *slot = &end->out[got % MOST];
    int is_news = got >= end->una && !slot->is_acked;
    if (is_news) {
        slot->is_acked = 1;
        if (!slot->is_lost)
            end->flight--;
        slot->is_lost = 0;
        if (!slot->is_resent)
            on_rtt(end, now - slot->sent_ns);
        end->cwnd += end->cwnd < (double)end->ssthresh ? 1 : 1 / end->cwnd;
        end->backoff = 0;
    }
    for (; end->una < missing; end->una++) {
        slot = &end->out[end->una % MOST]; /* its own ACK may have been lost */
        if (!slot->is_acked && !slot->is_lost)
            end->flight--;
        slot->is_acked = 1;
    }
    /* Three datagrams sent later have arrived: lost (RFC 5681 section 3.2). */
    for (uint64_t n = end->una; is_news && n + 3 <= got; n++) {
        slot = &end->out[n % MOST];
        if (slot->is_acked || slot->is_lost || slot->is_resent)
            continue;
        slot->is_lost = 1;
        end->lost++;
        end->flight--;
        if (n >= end->recover)
            halve(end);
    }
    arm(end, now);
}

static void on_data(struct end *end, uint64_t number, size_t bytes, int is_last) {
    end->ack_due = 1;
    end->ack_of = number;
    if (number < end->expected || number >= end->expected + MOST / 2)
        return;
    if (is_last) {
        end->peer_ends = 1;
        end->peer_last = number;
        end->last_bytes = bytes;
    }
    end->in[number % MOST].has_arrived = 1;
    while (end->in[end->expected % MOST].has_arrived) {
        end->in[end->expected % MOST].has_arrived = 0;
        end->ready += end->peer_ends && end->expected == end->peer_last ? end->last_bytes : end->payload;
        end->expected++;
    }
}

static void on_datagram(void *it, uint64_t now, const uint8_t *datagram, size_t bytes, enum tailback_ecn ecn) {
    struct end *end = it;
    uint64_t numbers[2] = {0, 0};
    (void)ecn;
    if (bytes < HEADER || end->is_over)
        return;
    memcpy(numbers, datagram + 1, bytes >= HEADER + 8 && datagram[0] == ACK ? 16 : 8);
    if (!end->is_up) {
        end->is_up = 1;
        end->hello_due = end->is_server;
        arm(end, now);
    }
    if (datagram[0] == HELLO)
        end->hello_due = end->is_server;
    else if (datagram[0] == ACK)
        on_ack(end, now, numbers[0], numbers[1]);
    else if (datagram[0] == DATA || datagram[0] == LAST)
        on_data(end, numbers[0], bytes - HEADER, datagram[0] == LAST);
    else if (datagram[0] == BYE)
        end->is_over = 1;
}

static size_t put(uint8_t *buffer, int kind, uint64_t number, size_t payload) {
    buffer[0] = (uint8_t)kind;
    memcpy(buffer + 1, &number, 8);
    memset(buffer + HEADER, 0, payload);
    return HEADER + payload;
}

static size_t send_one(struct end *end, uint64_t now, uint8_t *buffer, uint64_t number) {
    struct slot *slot = &end->out[number % MOST];
    int is_last = end->has_finished && number == end->last;
    uint64_t left = end->written - number * end->payload;
    slot->sent_ns = now;
    end->flight++;
    end->sent++;
    if (end->timer == TAILBACK_NEVER)
        arm(end, now);
    return put(buffer, is_last ? LAST : DATA, number, is_last ? (size_t)left : end->payload);
}

static size_t poll_transmit(void *it, uint64_t now, uint8_t *buffer, size_t room, enum tailback_ecn *ecn) {
    struct end *end = it;
    (void)room;
    *ecn = TAILBACK_NOT_ECT;
    if (end->bye_due) {
        end->bye_due = 0;
        return put(buffer, BYE, 0, 0);
    }
    if (end->is_over)
        return 0;
    if (end->hello_due) {
        end->hello_due = 0;
        arm(end, now);
        return put(buffer, HELLO, 0, 0);
    }
    if (end->ack_due) {
        end->ack_due = 0;
        put(buffer, ACK, end->expected, 8);
        memcpy(buffer + HEADER, &end->ack_of, 8);
        return HEADER + 8;
    }
    if (!end->is_up || end->flight >= (uint64_t)end->cwnd)
        return 0;
    for (uint64_t n = end->una; n < end->next; n++)
        if (end->out[n % MOST].is_lost) {
            end->out[n % MOST].is_lost = 0;
            end->out[n % MOST].is_resent = 1;
            return send_one(end, now, buffer, n);
        }
    int has_full = end->written >= (end->next + 1) * end->payload && !(end->has_finished && end->next >= end->last);
    int has_last = end->has_finished && !end->last_sent && end->next == end->last;
    if ((!has_full && !has_last) || end->next - end->una >= end->limit)
        return 0;
    end->last_sent |= has_last;
    memset(&end->out[end->next % MOST], 0, sizeof(struct slot));
    return send_one(end, now, buffer, end->next++);
}

static uint64_t next_timeout(void *it) { return ((struct end *)it)->timer; }

static void on_timeout(void *it, uint64_t now) {
    struct end *end = it;
    if (now < end->timer)
        return;
    end->backoff++;
    end->hello_due |= !end->is_server && !end->is_up;
    if (end->flight > 0) {
        halve(end);
        end->cwnd = 1;
        for (uint64_t n = end->una; n < end->next; n++) {
            struct slot *slot = &end->out[n % MOST];
            end->lost += !slot->is_acked && !slot->is_lost;
            slot->is_lost = !slot->is_acked;
            slot->is_resent = 0;
        }
        end->flight = 0;
    }
    arm(end, now);
    if (end->is_up)
        end->timer = TAILBACK_NEVER; /* what is sent next sets it */
}

static uint64_t write_stream(void *it, uint64_t most) {
    struct end *end = it;
    uint64_t held = end->written - end->una * end->payload, room = end->limit * end->payload;
    uint64_t taken = end->is_up && held < room ? (most < room - held ? most : room - held) : 0;
    end->written += taken;
    return taken;
}

static void finish(void *it) {
    struct end *end = it;
    end->has_finished = 1;
    end->last = end->written / end->payload;
}

static uint64_t read_stream(void *it, uint64_t now) {
    struct end *end = it;
    (void)now;
    uint64_t bytes = end->ready - end->read;
    end->read = end->ready;
    return bytes;
}

static void close_end(void *it, uint64_t now) {
    struct end *end = it;
    (void)now;
    end->is_over = end->bye_due = 1;
    end->timer = TAILBACK_NEVER;
}

static uint32_t progress(void *it) {
    struct end *end = it;
    return (end->is_up ? TAILBACK_ESTABLISHED : 0) | (end->is_over ? TAILBACK_CLOSED : 0) |
           (end->peer_ends && end->expected > end->peer_last && end->read == end->ready ? TAILBACK_PEER_FINISHED : 0) |
           (end->last_sent && end->una == end->next ? TAILBACK_ACKNOWLEDGED : 0);
}

static void state(void *it, struct tailback_state *out) {
    struct end *end = it;
    uint64_t size = end->payload;
    out->cwnd = (uint64_t)(end->cwnd * (double)size);
    out->ssthresh = end->ssthresh == UINT64_MAX ? 0 : end->ssthresh * size;
    out->in_flight = end->flight * size;
    out->srtt_ns = end->srtt;
    out->rtt_ns = end->rtt;
    out->rtt_min_ns = end->rtt_min;
    out->packets_sent = end->sent;
    out->packets_lost = end->lost;
    out->congestion_events = end->losses;
    out->bytes_acked = end->una * size < end->written ? end->una * size : end->written;
}

static const struct tailback_stack aimd = {
    .abi = TAILBACK_STACK_ABI, .version = "1", .algorithms = "aimd",
    .connect = connect_end, .free = free, .on_datagram = on_datagram, .poll_transmit = poll_transmit,
    .next_timeout = next_timeout, .on_timeout = on_timeout, .write = write_stream, .finish = finish,
    .read = read_stream, .close = close_end, .progress = progress, .state = state,
};
TAILBACK_STACK(aimd);
