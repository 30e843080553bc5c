/* A line of a given length and width between two network interfaces.
 *
 *   delayline NAME_A NAME_B DELAY_US RATE_AB RATE_BA QUEUE_BYTES
 *
 * Makes two TUN interfaces and carries every packet that enters one to the other, DELAY_US later. A rate in bytes
 * per second (0: none) makes packets wait for those before them; one that would wait behind more than QUEUE_BYTES is
 * dropped, as a router does. Prints "up" when both interfaces are there. A signal USR1 cuts the line (packets are
 * swallowed), USR2 mends it. For kernels without netem; TCP on both ends stays real, which no proxy can offer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 1 << 15, LARGEST = 2048 };

struct packet {
    int64_t leaves_ns;
    int size;
    unsigned char bytes[LARGEST];
};

struct lane {
    int from, to;
    double bytes_per_ns; /* 0: as fast as they come */
    int64_t free_ns;     /* when the last accepted packet will have passed the narrow place */
    uint32_t head, tail; /* head == tail: empty */
    struct packet *ring;
};

static volatile sig_atomic_t cut = 0;

static void on_signal(int number) { cut = number == SIGUSR1; }

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int open_tun(const char *name) {
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0) {
        perror(name);
        exit(1);
    }
    return fd;
}

static void take_in(struct lane *lane, int64_t delay_ns, int64_t queue_bytes) {
    for (int burst = 0; burst < 128; burst++) {
        struct packet *slot = &lane->ring[lane->tail % SLOTS];
        unsigned char spilled[LARGEST];
        int full = lane->tail - lane->head >= SLOTS;
        int size = read(lane->from, full ? spilled : slot->bytes, LARGEST);
        if (size <= 0) return;
        if (full || cut) continue;
        int64_t now = now_ns(), starts = lane->free_ns > now ? lane->free_ns : now;
        if (lane->bytes_per_ns > 0) {
            if ((starts - now) * lane->bytes_per_ns > queue_bytes) continue;
            lane->free_ns = starts + (int64_t)(size / lane->bytes_per_ns);
            starts = lane->free_ns;
        }
        slot->leaves_ns = starts + delay_ns;
        slot->size = size;
        lane->tail++;
    }
}

/* Hands over what is due; returns when the next packet will be. */
static int64_t give_out(struct lane *lane, int64_t idle_until) {
    while (lane->head != lane->tail) {
        struct packet *slot = &lane->ring[lane->head % SLOTS];
        if (slot->leaves_ns > now_ns()) return slot->leaves_ns;
        if (!cut && write(lane->to, slot->bytes, slot->size) < 0 && errno == EAGAIN) return now_ns() + 100000;
        lane->head++;
    }
    return idle_until;
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: delayline NAME_A NAME_B DELAY_US RATE_AB RATE_BA QUEUE_BYTES\n");
        return 2;
    }
    int a = open_tun(argv[1]), b = open_tun(argv[2]);
    int64_t delay_ns = atoll(argv[3]) * 1000, queue_bytes = atoll(argv[6]);
    struct lane lanes[2] = {
        {.from = a, .to = b, .bytes_per_ns = atof(argv[4]) / 1e9, .ring = calloc(SLOTS, sizeof(struct packet))},
        {.from = b, .to = a, .bytes_per_ns = atof(argv[5]) / 1e9, .ring = calloc(SLOTS, sizeof(struct packet))},
    };
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    puts("up");
    fflush(stdout);
    for (;;) {
        int64_t wake = now_ns() + 1000000000;
        for (int i = 0; i < 2; i++) {
            int64_t due = give_out(&lanes[i], wake);
            if (due < wake) wake = due;
        }
        int64_t rest = wake - now_ns();
        struct timespec wait = {.tv_sec = rest > 0 ? rest / 1000000000 : 0, .tv_nsec = rest > 0 ? rest % 1000000000 : 0};
        struct pollfd ready[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
        ppoll(ready, 2, &wait, NULL);
        for (int i = 0; i < 2; i++)
            if (ready[i].revents & POLLIN) take_in(&lanes[i], delay_ns, queue_bytes);
    }
}
