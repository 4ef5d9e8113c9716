// SPDX-License-Identifier: Apache-2.0
/* wire.c -- see wire.h. */
#include "cluster/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    MAGIC = 0x6d626131, // "mba1"
    CALLERS = 64,       // that rank 0 hears at once: strangers that say nothing do not keep the others waiting
    ANSWER_MOST = 256   // bytes of an answer to a greeting
};
static const uint64_t MOST = UINT64_C(1) << 36;
static const double   GREETING_S = 5; /* a caller that has not greeted is sent away after so long */

double mba_wire_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void mba_wire_host(char host[MBA_WIRE_HOST])
{
    memset(host, 0, MBA_WIRE_HOST);
    if (gethostname(host, MBA_WIRE_HOST - 1)) snprintf(host, MBA_WIRE_HOST, "unknown host");
}

/* ---- messages ---- */

static mba_status lost_connection(void)
{
    return mba_fail(MBA_E_IO, "a connection between ranks closed\nwhy: %s",
                    errno ? strerror(errno) : "the other end left");
}

static mba_status send_bytes(int fd, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return lost_connection();
        done += (size_t)n;
    }
    return MBA_OK;
}

static mba_status receive_bytes(int fd, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        errno = 0;
        const ssize_t n = recv(fd, (char *)data + done, bytes - done, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH))
            return mba_fail(MBA_E_DEVICE, "a rank fell silent, in the middle of a message or behind its network");
        if (n <= 0) return lost_connection();
        done += (size_t)n;
    }
    return MBA_OK;
}

mba_status mba_wire_send(int fd, mba_wire_type type, uint64_t serial, const void *data, size_t bytes)
{
    const mba_wire_head h = { MAGIC, (uint32_t)type, serial, bytes };
    errno = 0;
    MBA_TRY(send_bytes(fd, &h, sizeof h));
    return send_bytes(fd, data, bytes);
}

static mba_status receive_most(int fd, mba_wire_head *h, char **data, uint64_t most)
{
    *data = NULL;
    MBA_TRY(receive_bytes(fd, h, sizeof *h));
    if (h->magic != MAGIC || h->bytes > most)
        return mba_fail(MBA_E_FORMAT, "a message between ranks is damaged\nwhy: it is not of this program");
    if (!h->bytes) return MBA_OK;
    if (!(*data = malloc(h->bytes))) return mba_fail(MBA_E_NOMEM, "no memory for a message between ranks");
    return receive_bytes(fd, *data, h->bytes);
}

mba_status mba_wire_receive(int fd, mba_wire_head *h, char **data) { return receive_most(fd, h, data, MOST); }

void mba_wire_limit(int fd, double seconds)
{
    const struct timeval t = { .tv_sec = (time_t)seconds,
                               .tv_usec = (suseconds_t)(1e6 * (seconds - (double)(time_t)seconds)) };
    const int            one = 1, ms = (int)(1000 * seconds);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

void mba_wire_hang_up(int fd) { shutdown(fd, SHUT_RDWR); }

/* ---- listening ---- */

/* The addresses of this host: others first, then that of the host itself, for ranks beside this one. */
static void own_addresses(char *out, size_t room)
{
    struct ifaddrs *all = NULL;
    size_t          n = strlen(out);
    if (getifaddrs(&all)) all = NULL;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char text[INET6_ADDRSTRLEN];
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP)
            || i->ifa_flags & IFF_LOOPBACK)
            continue;
        const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)i->ifa_addr;
        if (!inet_ntop(AF_INET, &a->sin_addr, text, sizeof text) || n + strlen(text) + 2 > room - 12) continue;
        n += (size_t)snprintf(out + n, room - n, " %s", text);
    }
    if (all) freeifaddrs(all);
    snprintf(out + n, room - n, " 127.0.0.1");
}

mba_status mba_channel_listen(int *listener, char contacts[MBA_CONTACTS_MAX], int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_ANY),
                             .sin_port = htons((uint16_t)port) };
    socklen_t          n = sizeof a;
    const int          fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd >= 0 && port) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); // of a run that has just ended
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 512)
        || getsockname(fd, (struct sockaddr *)&a, &n)) {
        if (fd >= 0) close(fd);
        return port ? mba_fail(MBA_E_IO, "cannot open port %d for the other ranks\nwhy: %s\nfix: another MASTER_PORT",
                               port, strerror(errno))
                    : mba_fail(MBA_E_IO, "cannot open a port for the other ranks\nwhy: %s", strerror(errno));
    }
    snprintf(contacts, MBA_CONTACTS_MAX, "%d", (int)ntohs(a.sin_port));
    own_addresses(contacts, MBA_CONTACTS_MAX);
    *listener = fd;
    return MBA_OK;
}

/* Compares all bytes, so that the time taken tells a stranger nothing. */
static bool same_secret(const unsigned char *a, const unsigned char *b)
{
    unsigned differs = 0;
    for (int i = 0; i < MBA_SECRET_BYTES; i++) differs |= a[i] ^ b[i];
    return !differs;
}

/* Why a greeting is refused; NULL: it is welcome. */
static const char *objection(char *why, size_t room, const int *fd, const mba_wire_hello *me, const mba_wire_hello *h)
{
    if (h->ranks != me->ranks)
        snprintf(why, room, "rank %d was started as one of %d ranks, rank 0 as one of %d", h->rank, h->ranks,
                 me->ranks);
    else if (h->rank < 1 || h->rank >= me->ranks) snprintf(why, room, "there is no rank %d of %d", h->rank, me->ranks);
    else if (fd[h->rank] >= 0) snprintf(why, room, "two processes are rank %d", h->rank);
    else if (strncmp(h->version, me->version, sizeof h->version))
        snprintf(why, room, "rank %d runs version %.63s, rank 0 runs %.63s", h->rank, h->version, me->version);
    else return NULL;
    return why;
}

/* Someone who has connected and has yet to say who it is. Nothing it says is believed before the secret: a greeting has
 * one size, and one time for all of it. */
typedef struct caller {
    int    fd;
    double until;
    size_t got;
    char   said[sizeof(mba_wire_head) + sizeof(mba_wire_hello)];
} caller;

/* Takes what has come. False: this is no greeting. */
static bool hear_caller(caller *c)
{
    mba_wire_head h;
    const ssize_t n = recv(c->fd, c->said + c->got, sizeof c->said - c->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) return false;
    c->got += (size_t)n;
    memcpy(&h, c->said, sizeof h);
    return c->got < sizeof h || (h.magic == MAGIC && h.type == MBA_WIRE_HELLO && h.bytes == sizeof(mba_wire_hello));
}

/* Answers a greeting. A stranger is not an error; a rank that does not fit is. Keeps or closes the connection. */
static mba_status greet(int *fd, char (*host)[MBA_WIRE_HOST], const caller *c, const mba_wire_hello *me, int *missing)
{
    mba_wire_hello h;
    char           why[ANSWER_MOST];
    mba_status     st = MBA_OK;
    bool           stays = false;
    memcpy(&h, c->said + sizeof(mba_wire_head), sizeof h);
    h.host[MBA_WIRE_HOST - 1] = 0;
    if (same_secret(h.secret, me->secret)) {
        if (objection(why, sizeof why, fd, me, &h)) {
            (void)!mba_wire_send(c->fd, MBA_WIRE_REFUSED, 0, why, strlen(why) + 1);
            st = mba_fail(MBA_E_ARG, "the ranks do not fit together\nwhy: %s\nfix: start all ranks by one command",
                          why);
        } else if (mba_wire_send(c->fd, MBA_WIRE_WELCOME, 0, me->host, sizeof me->host) == MBA_OK) {
            fd[h.rank] = c->fd;
            memcpy(host[h.rank], h.host, sizeof h.host);
            (*missing)--;
            stays = true;
        }
    }
    if (!stays) close(c->fd);
    return st;
}

static mba_status did_not_come(const int *fd, const mba_wire_hello *me, int missing)
{
    int k = 1;
    while (fd[k] >= 0) k++;
    return mba_fail(MBA_E_DEVICE,
                    "rank %d did not come\nwhy: %d of %d ranks have not greeted rank 0 (%s) in time\nfix: look "
                    "at what they print; a firewall may close the ports between hosts",
                    k, missing, me->ranks, me->host);
}

/* Takes a new caller; returns how many there are. */
static int take_caller(caller *at, int n, int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return n;
    mba_wire_limit(fd, GREETING_S); // of the answer
    at[n] = (caller){ .fd = fd, .until = mba_wire_seconds() + GREETING_S };
    return n + 1;
}

mba_status mba_wire_accept_all(int *fd, char (*host)[MBA_WIRE_HOST], int listener, const mba_wire_hello *me,
                               double until)
{
    caller        at[CALLERS];
    struct pollfd p[CALLERS + 1];
    int           n = 0, missing = me->ranks - 1;
    mba_status    st = MBA_OK;
    while (missing && st == MBA_OK) {
        if (mba_wire_seconds() >= until) st = did_not_come(fd, me, missing);
        for (int k = 0; k < n; k++) p[k] = (struct pollfd){ .fd = at[k].fd, .events = POLLIN };
        p[n] = (struct pollfd){ .fd = n < CALLERS ? listener : -1, .events = POLLIN };
        if (st != MBA_OK || poll(p, (nfds_t)n + 1, 100) < 0) continue;
        const bool calls = p[n].revents & POLLIN;
        for (int k = n - 1; k >= 0 && st == MBA_OK; k--) { // the last takes the place of one that is done
            const bool stranger = (p[k].revents && !hear_caller(&at[k])) || mba_wire_seconds() > at[k].until;
            if (!stranger && at[k].got < sizeof at[k].said) continue;
            if (stranger) close(at[k].fd);
            else st = greet(fd, host, &at[k], me, &missing);
            at[k] = at[--n];
        }
        if (calls && n < CALLERS) n = take_caller(at, n, listener);
    }
    for (int k = 0; k < n; k++) close(at[k].fd);
    return st;
}

/* ---- joining ---- */

/* Connects within two seconds; -1: this address does not answer. */
static int reach(const char *address, int port)
{
    const struct addrinfo hint = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
    struct addrinfo      *found = NULL;
    struct sockaddr_in    a;
    if (getaddrinfo(address, NULL, &hint, &found)) return -1;
    memcpy(&a, found->ai_addr, sizeof a);
    freeaddrinfo(found);
    a.sin_port = htons((uint16_t)port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    mba_wire_limit(fd, 2); // of connect, too
    if (!connect(fd, (struct sockaddr *)&a, sizeof a)) return fd;
    close(fd);
    return -1;
}

/* Says hello. *fits false: rank 0 refuses this rank. */
static mba_status say_hello(int fd, char host[MBA_WIRE_HOST], const mba_wire_hello *me, bool *fits)
{
    mba_wire_head h;
    char         *data = NULL;
    mba_wire_limit(fd, GREETING_S);
    mba_status st = mba_wire_send(fd, MBA_WIRE_HELLO, 0, me, sizeof *me);
    if (st == MBA_OK) st = receive_most(fd, &h, &data, ANSWER_MOST);
    if (st == MBA_OK && h.type == MBA_WIRE_REFUSED && h.bytes) {
        *fits = false;
        st = mba_fail(MBA_E_ARG, "rank 0 refuses rank %d\nwhy: %.*s\nfix: start all ranks by one command", me->rank,
                      (int)h.bytes, data);
    } else if (st == MBA_OK && (h.type != MBA_WIRE_WELCOME || h.bytes != MBA_WIRE_HOST)) {
        st = mba_fail(MBA_E_FORMAT, "whoever answers there is not rank 0");
    } else if (st == MBA_OK) {
        memcpy(host, data, MBA_WIRE_HOST);
        host[MBA_WIRE_HOST - 1] = 0;
    }
    free(data);
    return st;
}

mba_status mba_wire_join(int *fd, char host[MBA_WIRE_HOST], const char *contacts, const mba_wire_hello *me,
                         double until)
{
    char list[MBA_CONTACTS_MAX];
    do {
        snprintf(list, sizeof list, "%s", contacts);
        char     *rest = NULL, *port = strtok_r(list, " ", &rest);
        const int number = port ? atoi(port) : 0;
        for (char *address; number && (address = strtok_r(NULL, " ", &rest));) {
            bool      fits = true;
            const int s = reach(address, number);
            if (s < 0) continue;
            const mba_status st = say_hello(s, host, me, &fits);
            if (st == MBA_OK) {
                *fd = s;
                return MBA_OK;
            }
            close(s);
            if (!fits) return st;
        }
        usleep(100000);
    } while (mba_wire_seconds() < until);
    return mba_fail(MBA_E_DEVICE,
                    "rank %d cannot reach rank 0\nwhy: none of its addresses answers (port and addresses: %s)\nfix: "
                    "look at what rank 0 prints; a firewall may close the ports between hosts",
                    me->rank, contacts);
}
