/* Stands between a program and the C library (LD_PRELOAD), for the file operations below one folder: it counts them in
 * their order, and kills the process before the k-th, lets some of them fail, or records all of them with their data.
 *
 * An operation is what changes the disk or makes a change durable: creating, writing, truncating, syncing, renaming and
 * unlinking. Writing to a file named ACK is none: it is how a program says what it has promised, and is recorded in
 * the same order. The program under test works in one thread; nothing here is locked. (With several threads, do not
 * record.) What SQLite writes into the mapped -shm is not seen, and need not be: a -shm is made again after a crash.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8, "the 64-bit names are the same functions as the plain ones here");

enum { OFF, COUNT, KILL, FAIL, TRACE, READS }; /* READS counts and fails reads, and nothing else */
#define DESCRIPTORS 4096

static char folder[4096];
static size_t folder_length;
static int mode, error, shorten, trace = -1;
static long first, last, count;
static char *paths[DESCRIPTORS]; /* of the descriptors that lead below the folder */

#define REAL(name, ...) \
    ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real(__VA_ARGS__); })

/* --- what the harness calls ------------------------------------------------------------------------------------- */

void shim_watch(const char *path) {
    strncpy(folder, path, sizeof folder - 1);
    folder_length = strlen(folder);
}

/* Operations first to last are concerned, counted from 1; descriptor is where a record goes. */
void shim_arm(int new_mode, long from, long to, int with_error, int half, int descriptor) {
    mode = new_mode, first = from, last = to, error = with_error, shorten = half, trace = descriptor, count = 0;
}

long shim_count(void) { return count; }

/* --- what is watched, and what happens to it ---------------------------------------------------------------------- */

static int watched(const char *path) {
    return folder_length && !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
}

static int ends(const char *path, const char *with) {
    size_t length = strlen(path), tail = strlen(with);
    return length >= tail && !strcmp(path + length - tail, with);
}

static const char *path_of(int descriptor) {
    return descriptor >= 0 && descriptor < DESCRIPTORS ? paths[descriptor] : NULL;
}

/* Counts one operation. True when it must fail; errno says how. */
static int fails(const char *path) {
    if (mode == OFF || mode == READS || ends(path, "/ACK")) return 0;
    count++;
    if (mode == KILL && count == first) kill(getpid(), SIGKILL);
    if (mode != FAIL || count < first || count > last) return 0;
    errno = error;
    return 1;
}

static int fails_to_read(int descriptor) {
    if (mode != READS || !path_of(descriptor) || ends(path_of(descriptor), "/ACK")) return 0;
    count++;
    errno = error;
    return count >= first && count <= last;
}

/* One record: kind, inode, offset or size, three lengths, and then path, other path and data. */
static void record(char kind, uint64_t inode, int64_t offset, const char *path, const char *other, const void *data, size_t length) {
    if (mode != TRACE) return;
    struct __attribute__((packed)) { char kind; uint64_t inode; int64_t offset; uint32_t path, other; uint64_t data; } head =
        {kind, inode, offset, strlen(path), strlen(other), length};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)other, head.other}, {(void *)data, length}};
    if (writev(trace, parts, 4) != (ssize_t)(sizeof head + head.path + head.other + length)) abort();
}

static uint64_t inode_of(int descriptor) {
    struct stat found;
    return fstat(descriptor, &found) ? 0 : found.st_ino;
}

/* --- the functions of the C library ------------------------------------------------------------------------------- */

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t bits = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (!watched(path)) return REAL(open, path, flags, bits);
    struct stat found;
    int makes = flags & O_CREAT && stat(path, &found), empties = !makes && flags & O_TRUNC;
    if ((makes || empties) && fails(path)) return -1;
    int descriptor = REAL(open, path, flags, bits);
    if (descriptor < 0 || descriptor >= DESCRIPTORS) return descriptor;
    free(paths[descriptor]);
    paths[descriptor] = strdup(path);
    record(makes ? 'c' : 'o', inode_of(descriptor), 0, path, "", NULL, 0);
    if (empties) record('t', inode_of(descriptor), 0, path, "", NULL, 0);
    return descriptor;
}
int open64(const char *, int, ...) __attribute__((alias("open")));

int openat(int directory, const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t bits = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return watched(path) ? open(path, flags, bits) : REAL(openat, directory, path, flags, bits);
}
int openat64(int, const char *, int, ...) __attribute__((alias("openat")));

int close(int descriptor) {
    if (path_of(descriptor)) free(paths[descriptor]), paths[descriptor] = NULL;
    return REAL(close, descriptor);
}

/* A short write writes half, at the first operation concerned; what the program then writes after it fails. */
static ssize_t put(int descriptor, const void *data, size_t length, off_t offset) {
    const char *path = path_of(descriptor);
    if (fails(path)) {
        if (!shorten || count != first || length < 2) return -1;
        length /= 2;
    }
    ssize_t done = REAL(pwrite, descriptor, data, length, offset);
    if (done > 0) record(ends(path, "/ACK") ? 'a' : 'w', inode_of(descriptor), offset, path, "", data, done);
    return done;
}

ssize_t pwrite(int descriptor, const void *data, size_t length, off_t offset) {
    return path_of(descriptor) ? put(descriptor, data, length, offset) : REAL(pwrite, descriptor, data, length, offset);
}
ssize_t pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));

ssize_t write(int descriptor, const void *data, size_t length) {
    if (!path_of(descriptor)) return REAL(write, descriptor, data, length);
    off_t at = lseek(descriptor, 0, fcntl(descriptor, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
    ssize_t done = put(descriptor, data, length, at);
    if (done > 0) lseek(descriptor, at + done, SEEK_SET);
    return done;
}

ssize_t pread(int descriptor, void *data, size_t length, off_t offset) {
    return fails_to_read(descriptor) ? -1 : REAL(pread, descriptor, data, length, offset);
}
ssize_t pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));

ssize_t read(int descriptor, void *data, size_t length) {
    return fails_to_read(descriptor) ? -1 : REAL(read, descriptor, data, length);
}

int ftruncate(int descriptor, off_t size) {
    const char *path = path_of(descriptor);
    if (path && fails(path)) return -1;
    int done = REAL(ftruncate, descriptor, size);
    if (path && !done) record('t', inode_of(descriptor), size, path, "", NULL, 0);
    return done;
}
int ftruncate64(int, off_t) __attribute__((alias("ftruncate")));

#define SYNC(name) \
    int name(int descriptor) { \
        const char *path = path_of(descriptor); \
        if (path && fails(path)) return -1; \
        int done = REAL(name, descriptor); \
        if (path && !done) record('s', inode_of(descriptor), 0, path, "", NULL, 0); \
        return done; \
    }
SYNC(fsync)
SYNC(fdatasync)

int unlink(const char *path) {
    if (watched(path) && !access(path, F_OK) && fails(path)) return -1;
    int done = REAL(unlink, path);
    if (watched(path) && !done) record('u', 0, 0, path, "", NULL, 0);
    return done;
}

/* Another name for a file that has one: how a finished file is put in place without replacing anything. */
int link(const char *from, const char *to) {
    if (watched(to) && fails(to)) return -1;
    int done = REAL(link, from, to);
    if (watched(to) && !done) record('l', 0, 0, from, to, NULL, 0);
    return done;
}

int linkat(int old, const char *from, int new, const char *to, int flags) {
    if (watched(to) && fails(to)) return -1;
    int done = REAL(linkat, old, from, new, to, flags);
    if (watched(to) && !done) record('l', 0, 0, from, to, NULL, 0);
    return done;
}

int rename(const char *from, const char *to) {
    if (watched(from) && fails(from)) return -1;
    int done = REAL(rename, from, to);
    if (watched(from) && !done) record('r', 0, 0, from, to, NULL, 0);
    return done;
}

int mkdir(const char *path, mode_t bits) {
    return watched(path) && fails(path) ? -1 : REAL(mkdir, path, bits);
}
