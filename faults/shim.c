/*
 * Stands between a program and its disk and clock, by LD_PRELOAD. Every change below FAULTS_FOLDER is appended to the file
 * FAULTS_TRACE after it was made, and every sync before and after, so that the disk as a power cut would leave it can be
 * rebuilt at any point (power-cut.ts). The words of the file FAULTS_CONTROL, which is mapped, make syncs and writes fail,
 * make syncs lie, and move the wall clock, at any moment.
 *
 *     gcc -O2 -shared -fPIC -o shim.so shim.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The order of the fields is that of `words` in shim.ts. */
struct control {
  int64_t clock_ms;
  int64_t sync_errno, sync_after, sync_times;
  int64_t write_errno, write_after, write_times;
  int64_t lie_percent, lie_state;
  int64_t syncs, syncs_lied, syncs_failed, writes, writes_failed;
};

/* The order is that of `operations` in trace.ts. */
enum operation { WRITE, TRUNCATE, EXTEND, CREATE, UNLINK, RENAME, SYNC_BEGUN, SYNC_ENDED, SYNC_FAILED, MKDIR, RMDIR };

struct record {
  uint32_t magic, operation, path_bytes, data_bytes;
  uint64_t at_ns, inode, offset, token;
};

enum { known_files = 65536, log_fd_from = 1000 };

/* What is open here and lies below the folder: its inode and its path. The path is only used of directories. */
static struct { uint64_t inode; char *path; } files[known_files];
static struct control *control;
static char folder[4096];
static size_t folder_bytes;
static int log_fd = -1;

static int (*real_clock_gettime)(clockid_t, struct timespec *);

#define REAL(type, name) static type real; if (!real) real = (type)dlsym(RTLD_NEXT, name)

static uint64_t now_ns(void) {
  struct timespec at;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &at);
  return (uint64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
  const char *below = getenv("FAULTS_FOLDER"), *trace = getenv("FAULTS_TRACE"), *words = getenv("FAULTS_CONTROL");
  real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  if (words != NULL) {
    int fd = syscall(SYS_openat, AT_FDCWD, words, O_RDWR | O_CLOEXEC, 0);
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) { fprintf(stderr, "faults: %s: %s\n", words, strerror(errno)); _exit(86); }
    control = mapped;
    syscall(SYS_close, fd);
  }
  if (below != NULL && trace != NULL) {
    int fd = syscall(SYS_openat, AT_FDCWD, trace, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    log_fd = fd < 0 ? -1 : (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, log_fd_from);
    if (log_fd < 0) { fprintf(stderr, "faults: %s: %s\n", trace, strerror(errno)); _exit(86); }
    syscall(SYS_close, fd);
    folder_bytes = snprintf(folder, sizeof folder, "%s/", below);
  }
}

/* Whether the path is the folder, whose sync keeps the names in it, or below. */
static int is_below(const char *path) {
  return log_fd >= 0 && strncmp(path, folder, folder_bytes - 1) == 0 &&
         (path[folder_bytes - 1] == '/' || path[folder_bytes - 1] == 0);
}

/* One call with O_APPEND: records of several processes and threads do not mix. */
static void note(enum operation operation, uint64_t inode, uint64_t offset, uint64_t token, const char *path, size_t path_bytes,
                 const void *data, size_t data_bytes) {
  int kept = errno;
  struct record head = {0x46415554, operation, path_bytes, data_bytes, now_ns(), inode, offset, token};
  struct iovec parts[] = {{&head, sizeof head}, {(void *)path, path_bytes}, {(void *)data, data_bytes}};
  ssize_t written = syscall(SYS_writev, log_fd, parts, 3);
  if (written != (ssize_t)(sizeof head + path_bytes + data_bytes)) {
    fprintf(stderr, "faults: the trace cannot be written: %s\n", strerror(errno));
    _exit(86);
  }
  errno = kept;
}

/* The path without the links in its folder; the name itself need not exist. */
static int absolute(int at, const char *path, char *found) {
  char base[4096];
  if (path[0] == '/') { snprintf(found, 4096, "%s", path); return 1; }
  if (at == AT_FDCWD) {
    if (syscall(SYS_getcwd, base, sizeof base) < 0) return 0;
  } else {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t bytes = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
    if (bytes < 0) return 0;
    base[bytes] = 0;
  }
  while (strncmp(path, "./", 2) == 0) path += 2;
  snprintf(found, 4096, "%.2000s/%.2000s", base, path);
  return 1;
}

static void forget(int fd) {
  if (fd < 0 || fd >= known_files || files[fd].inode == 0) return;
  files[fd].inode = 0;
  free(files[fd].path);
  files[fd].path = NULL;
}

static int is_known(int fd) { return fd >= 0 && fd < known_files && files[fd].inode != 0; }

static int open_at(int at, const char *path, int flags, mode_t mode) {
  char whole[4096];
  struct stat info;
  int below = log_fd >= 0 && absolute(at, path, whole) && is_below(whole);
  /* Memory shared by the processes of SQLite, which makes it again at each start. */
  size_t bytes = below ? strlen(whole) : 0;
  if (bytes > 4 && strcmp(whole + bytes - 4, "-shm") == 0) below = 0;
  int is_new = below && (flags & O_CREAT) && syscall(SYS_faccessat, AT_FDCWD, whole, F_OK) != 0;
  int fd = syscall(SYS_openat, at, path, flags | O_LARGEFILE, mode);
  if (fd < 0) return fd;
  forget(fd);
  if (!below || fd >= known_files || syscall(SYS_fstat, fd, &info) != 0) return fd;
  if (is_new) note(CREATE, info.st_ino, 0, 0, whole, bytes, NULL, 0);
  else if ((flags & O_TRUNC) && S_ISREG(info.st_mode)) note(TRUNCATE, info.st_ino, 0, 0, NULL, 0, NULL, 0);
  files[fd].path = strdup(whole);
  files[fd].inode = info.st_ino;
  return fd;
}

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
    return open_at(AT_FDCWD, path, flags, mode); \
  }
#define OPENAT(name) \
  int name(int at, const char *path, int flags, ...) { \
    va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
    return open_at(at, path, flags, mode); \
  }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)

int close(int fd) {
  if (fd == log_fd && log_fd >= 0) return 0;
  forget(fd);
  return syscall(SYS_close, fd);
}

/* Whether this call is one of those that shall fail. */
static int is_chosen(int64_t *error, int64_t *after, int64_t *times) {
  if (__atomic_load_n(error, __ATOMIC_RELAXED) == 0) return 0;
  if (__atomic_sub_fetch(after, 1, __ATOMIC_RELAXED) >= 0) return 0;
  return __atomic_sub_fetch(times, 1, __ATOMIC_RELAXED) >= 0;
}

static int refuses_write(int fd) {
  if (control == NULL || !is_known(fd)) return 0;
  __atomic_add_fetch(&control->writes, 1, __ATOMIC_RELAXED);
  if (!is_chosen(&control->write_errno, &control->write_after, &control->write_times)) return 0;
  __atomic_add_fetch(&control->writes_failed, 1, __ATOMIC_RELAXED);
  return 1;
}

static ssize_t write_at(int fd, const void *data, size_t bytes, off_t offset) {
  int refused = refuses_write(fd);
  if (refused && control->write_errno == ENOSPC) bytes = bytes / 1024 * 512; /* A full disk takes the first part. */
  else if (refused) bytes = 0;
  ssize_t written = bytes == 0 ? 0 : syscall(SYS_pwrite64, fd, data, bytes, offset);
  if (written > 0 && is_known(fd)) note(WRITE, files[fd].inode, offset, 0, NULL, 0, data, written);
  if (!refused) return written;
  errno = control->write_errno;
  return -1;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) { return write_at(fd, data, bytes, offset); }
ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset) { return write_at(fd, data, bytes, offset); }

static ssize_t write_parts_at(int fd, const struct iovec *parts, int count, off_t offset) {
  if (!is_known(fd)) return syscall(SYS_pwritev, fd, parts, (long)count, (long)offset, 0L);
  ssize_t all = 0;
  for (int i = 0; i < count; i++) {
    ssize_t written = write_at(fd, parts[i].iov_base, parts[i].iov_len, offset + all);
    if (written < 0) return all > 0 ? all : -1;
    all += written;
    if ((size_t)written < parts[i].iov_len) break;
  }
  return all;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return write_parts_at(fd, parts, count, offset); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset) { return write_parts_at(fd, parts, count, offset); }

ssize_t write(int fd, const void *data, size_t bytes) {
  if (!is_known(fd)) return syscall(SYS_write, fd, data, bytes);
  if (refuses_write(fd)) { errno = control->write_errno; return -1; }
  ssize_t written = syscall(SYS_write, fd, data, bytes);
  if (written > 0) note(WRITE, files[fd].inode, syscall(SYS_lseek, fd, 0, SEEK_CUR) - written, 0, NULL, 0, data, written);
  return written;
}

static int is_lie(void) {
  if (control->lie_percent == 0) return 0;
  uint64_t state = __atomic_add_fetch(&control->lie_state, 0x9e3779b97f4a7c15, __ATOMIC_RELAXED);
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return (int64_t)((state ^ (state >> 31)) % 100) < control->lie_percent;
}

static int sync_by(long call, int fd) {
  if (!is_known(fd)) return syscall(call, fd);
  if (control != NULL) {
    __atomic_add_fetch(&control->syncs, 1, __ATOMIC_RELAXED);
    if (is_lie()) { __atomic_add_fetch(&control->syncs_lied, 1, __ATOMIC_RELAXED); return 0; }
  }
  uint64_t token = now_ns() * 4096 + (syscall(SYS_gettid) & 4095);
  note(SYNC_BEGUN, files[fd].inode, 0, token, files[fd].path, strlen(files[fd].path), NULL, 0);
  int failed = control != NULL && is_chosen(&control->sync_errno, &control->sync_after, &control->sync_times);
  if (failed) {
    __atomic_add_fetch(&control->syncs_failed, 1, __ATOMIC_RELAXED);
    note(SYNC_FAILED, files[fd].inode, 0, token, NULL, 0, NULL, 0);
    errno = control->sync_errno;
    return -1;
  }
  int answer = syscall(call, fd);
  note(answer == 0 ? SYNC_ENDED : SYNC_FAILED, files[fd].inode, 0, token, NULL, 0, NULL, 0);
  return answer;
}

int fsync(int fd) { return sync_by(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_by(SYS_fdatasync, fd); }

/* Postgres calls it before it recovers. It would write out the files of all other programs as well. */
int syncfs(int fd) {
  if (log_fd < 0) return syscall(SYS_syncfs, fd);
  uint64_t token = now_ns() * 4096 + (syscall(SYS_gettid) & 4095);
  note(SYNC_BEGUN, 0, 0, token, NULL, 0, NULL, 0);
  note(SYNC_ENDED, 0, 0, token, NULL, 0, NULL, 0);
  return 0;
}

static int truncate_to(int fd, off_t size) {
  int answer = syscall(SYS_ftruncate, fd, size);
  if (answer == 0 && is_known(fd)) note(TRUNCATE, files[fd].inode, size, 0, NULL, 0, NULL, 0);
  return answer;
}
int ftruncate(int fd, off_t size) { return truncate_to(fd, size); }
int ftruncate64(int fd, off_t size) { return truncate_to(fd, size); }

static int reserve(int fd, off_t from, off_t bytes) {
  if (syscall(SYS_fallocate, fd, 0, from, bytes) != 0) return errno;
  if (is_known(fd)) note(EXTEND, files[fd].inode, from + bytes, 0, NULL, 0, NULL, 0);
  return 0;
}
int posix_fallocate(int fd, off_t from, off_t bytes) { return reserve(fd, from, bytes); }
int posix_fallocate64(int fd, off_t from, off_t bytes) { return reserve(fd, from, bytes); }

static void note_path(enum operation operation, int at, const char *path) {
  char whole[4096];
  if (log_fd >= 0 && absolute(at, path, whole) && is_below(whole))
    note(operation, 0, 0, 0, whole, strlen(whole), NULL, 0);
}

int unlink(const char *path) {
  int answer = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  if (answer == 0) note_path(UNLINK, AT_FDCWD, path);
  return answer;
}

int rmdir(const char *path) {
  int answer = syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
  if (answer == 0) note_path(RMDIR, AT_FDCWD, path);
  return answer;
}

int mkdir(const char *path, mode_t mode) {
  int answer = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
  if (answer == 0) note_path(MKDIR, AT_FDCWD, path);
  return answer;
}

int rename(const char *from, const char *to) {
  char both[8192], whole[4096];
  int below = log_fd >= 0 && absolute(AT_FDCWD, from, both) && is_below(both) && absolute(AT_FDCWD, to, whole);
  int answer = syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
  if (answer != 0 || !below) return answer;
  size_t first = strlen(both);
  memcpy(both + first + 1, whole, strlen(whole));
  note(RENAME, 0, 0, 0, both, first + 1 + strlen(whole), NULL, 0);
  return answer;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  int answer = real_clock_gettime == NULL ? (int)syscall(SYS_clock_gettime, clock, at) : real_clock_gettime(clock, at);
  if (answer != 0 || control == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return answer;
  int64_t moved = control->clock_ms;
  int64_t ns = at->tv_nsec + moved % 1000 * 1000000;
  at->tv_sec += moved / 1000 + (ns < 0 ? -1 : ns / 1000000000);
  at->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
  return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
  (void)zone;
  struct timespec now;
  int answer = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return answer;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != NULL) *at = now.tv_sec;
  return now.tv_sec;
}
