// A wall clock that can be set ahead: preloaded into a server, it adds the seconds in RELOCK_CLOCK_FILE.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	(void)zone;
	struct timespec now;
	char text[32] = {0};
	if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
	int file = open(getenv("RELOCK_CLOCK_FILE"), O_RDONLY);
	if (file >= 0) {
		if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
		close(file);
	}
	tv->tv_sec = now.tv_sec + atol(text);
	tv->tv_usec = now.tv_nsec / 1000;
	return 0;
}
