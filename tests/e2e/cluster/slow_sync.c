/* A slow disk: loaded in front of libc, every sync takes SLOW_SYNC_MS longer while the file SLOW_SYNC_FILE exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_if_slow(void) {
    const char *file = getenv("SLOW_SYNC_FILE"), *ms = getenv("SLOW_SYNC_MS");
    if (file != NULL && ms != NULL && access(file, F_OK) == 0)
        usleep((useconds_t)atoi(ms) * 1000);
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_if_slow();
    return real(fd);
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_if_slow();
    return real(fd);
}
