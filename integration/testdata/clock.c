// A wall clock that can be set ahead: preloaded into a server, it adds the microseconds in RELOCK_CLOCK_FILE, at which it
// looks every few milliseconds.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	(void)zone;
	struct timespec now, steady;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0 || clock_gettime(CLOCK_MONOTONIC, &steady) != 0) return -1;
	static _Thread_local long looked = -1, ahead; // microseconds
	long tick = steady.tv_sec * 200 + steady.tv_nsec / 5000000;
	if (tick != looked) {
		char text[32] = {0};
		int file = open(getenv("RELOCK_CLOCK_FILE"), O_RDONLY);
		if (file >= 0) {
			if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
			close(file);
		}
		ahead = atol(text);
		looked = tick;
	}
	long micros = now.tv_sec * 1000000 + now.tv_nsec / 1000 + ahead;
	tv->tv_sec = micros / 1000000;
	tv->tv_usec = micros % 1000000;
	return 0;
}
