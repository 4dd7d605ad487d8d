package bench;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;

/** Memory shared with all workers, in which whoever holds a lock says so; laid out as the Go worker's board. */
final class Board {
    private static final VarHandle WORD = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
    private static final int SLOT = 64;
    private static final long NANO_ZERO = System.nanoTime();
    private static final long WALL_ZERO = wall();

    private final ByteBuffer mem;

    Board(String path) throws IOException {
        try (FileChannel f = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            mem = f.map(FileChannel.MapMode.READ_WRITE, 0, f.size());
        }
    }

    /** Notes that id holds the lock of slot; false when somebody else still does. */
    boolean enter(int slot, long id) {
        return (long) WORD.getAndSet(mem, slot * SLOT, id) == 0;
    }

    /** Notes that id is about to unlock; false when somebody else has entered meanwhile. */
    boolean exit(int slot, long id) {
        WORD.setVolatile(mem, slot * SLOT + 8, now());
        return WORD.compareAndSet(mem, slot * SLOT, id, 0L);
    }

    /** Notes that k more permits of the semaphore of slot are held; false when more than n are now. */
    boolean acquire(int slot, int n, int k) {
        return (long) WORD.getAndAdd(mem, slot * SLOT, (long) k) + k <= n;
    }

    /** Notes that k permits are about to be given back. */
    void release(int slot, int k) {
        WORD.getAndAdd(mem, slot * SLOT, (long) -k);
    }

    long lastExit(int slot) {
        return (long) WORD.getVolatile(mem, slot * SLOT + 8);
    }

    /** The clock that all processes of the machine share, in nanoseconds. */
    static long now() {
        return WALL_ZERO + (System.nanoTime() - NANO_ZERO);
    }

    private static long wall() {
        Instant t = Instant.now();
        return t.getEpochSecond() * 1_000_000_000L + t.getNano() - (System.nanoTime() - NANO_ZERO);
    }
}
