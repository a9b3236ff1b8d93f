/* Linked to every stack in C: what it calls here reads a clock, draws randomness or opens a socket, and no run repeats that.
 * The linker sends the calls here (--wrap). tailback reads the name after each call of the stack and ends its flow. */
#include <stddef.h>

__attribute__((visibility("default"))) const char *tailback_outside;

#define OUTSIDE(name)                        \
    long __wrap_##name(void);                \
    long __wrap_##name(void)                 \
    {                                        \
        if (tailback_outside == NULL)        \
            tailback_outside = #name;        \
        return 0;                            \
    }

OUTSIDE(clock_gettime)
OUTSIDE(gettimeofday)
OUTSIDE(time)
OUTSIDE(clock)
OUTSIDE(timespec_get)
OUTSIDE(rand)
OUTSIDE(random)
OUTSIDE(drand48)
OUTSIDE(getrandom)
OUTSIDE(getentropy)
OUTSIDE(arc4random)
OUTSIDE(socket)
OUTSIDE(nanosleep)
OUTSIDE(usleep)
OUTSIDE(sleep)
