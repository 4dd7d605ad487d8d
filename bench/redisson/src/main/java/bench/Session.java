package bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** A connected Redisson and what is held between two requests. */
final class Session {
    private static final long OWNER = 1; // the thread id that Hold and Take lock with
    private static final long LIMIT_SECONDS = 30;

    final Board[] board = new Board[1];
    private Wire wire = new Wire();
    private RedissonClient redisson;
    private boolean fair;
    private RLock held;
    private Gate[] permits = {}; // of Hold
    private long leaseMs;
    private final Set<String> sized = ConcurrentHashMap.newKeySet(); // semaphores that have their number of permits
    private int slot;
    private Loop waiting;
    private RLock[] taken = {};

    void answer(Request r, Reply reply) throws Exception {
        switch (r.verb) {
            case "open" -> open(r);
            case "loop" -> new Loop(this, r).measure(reply);
            case "hold" -> hold(r, reply);
            case "release" -> release(reply);
            case "wait" -> {
                waiting = new Loop(this, r);
                waiting.startWaiting();
                reply.at = Board.now();
            }
            case "join" -> {
                waiting.join(r.millis, reply);
                waiting = null;
            }
            case "count" -> count(r, reply);
            case "visit" -> visit(r, reply);
            case "take" -> take(r, reply);
            case "drop" -> drop(reply);
            case "stats" -> reply.usage = settled();
            case "close" -> close();
            default -> throw new IllegalArgumentException("unknown request " + r.verb);
        }
    }

    private void open(Request r) throws Exception {
        close();
        board[0] = new Board(r.board);
        Config config = new Config();
        config.useSingleServer().setAddress(r.redis);
        if (r.leaseMs > 0) {
            config.setLockWatchdogTimeout(r.leaseMs);
        }
        leaseMs = r.leaseMs > 0 ? r.leaseMs : LIMIT_SECONDS * 1000;
        sized.clear();
        wire = new Wire();
        config.setNettyHook(wire);
        redisson = Redisson.create(config);
        fair = r.peer.equals("redisson-fair");
    }

    private void close() {
        if (redisson != null) {
            redisson.shutdown(0, 2, TimeUnit.SECONDS);
            redisson = null;
        }
        held = null;
        taken = new RLock[0];
        permits = new Gate[0];
    }

    /** What a thread is to enter next. */
    Gate gate(Request r, String key) {
        if (r.permits > 0) {
            return permits(key, r.permits, 1 + ThreadLocalRandom.current().nextInt(Math.max(1, r.weights)));
        }
        if (r.together > 0) {
            int[] chosen = ThreadLocalRandom.current().ints(0, r.locks).distinct().limit(r.together)
                .sorted().toArray(); // in another order for each caller they would wait for one another in circles
            RLock[] locks = Arrays.stream(chosen).mapToObj(n -> lock(key + ":" + n)).toArray(RLock[]::new);
            return new Gate.Several(redisson.getMultiLock(locks), chosen);
        }
        if (r.reads == 0) {
            return new Gate.Lock(lock(key), false);
        }
        boolean reads = r.reads > ThreadLocalRandom.current().nextInt(100);
        return new Gate.Lock(side(r.key, reads), reads);
    }

    private Gate.Permits permits(String key, int n, int k) {
        RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore(key);
        if (sized.add(key)) {
            semaphore.trySetPermits(n); // others wait for a permit until then
        }
        return new Gate.Permits(semaphore, n, k, leaseMs);
    }

    private RLock lock(String key) {
        return fair ? redisson.getFairLock(key) : redisson.getLock(key);
    }

    private RLock side(String key, boolean reads) {
        return reads ? redisson.getReadWriteLock(key).readLock() : redisson.getReadWriteLock(key).writeLock();
    }

    private void holdPermits(Request r, Reply reply) throws Exception {
        permits = new Gate[r.permits];
        slot = r.slot;
        for (int i = 0; i < r.permits; i++) {
            permits[i] = permits(r.key, r.permits, 1);
            permits[i].enter();
            reply.overlaps += permits[i].mark(board[0], slot, 0) ? 0 : 1;
        }
        reply.at = Board.now();
    }

    /** Takes one permit more than there should be, if it can within a time, and gives all back. */
    private void count(Request r, Reply reply) throws Exception {
        long limit = Board.now() + r.millis * 1_000_000;
        List<Gate.Permits> had = new ArrayList<>();
        while (had.size() <= r.permits) {
            Gate.Permits next = permits(r.key, r.permits, 1);
            if (!next.enter(Math.max(1, (limit - Board.now()) / 1_000_000))) {
                break;
            }
            reply.overlaps += next.mark(board[0], r.slot, 0) ? 0 : 1;
            had.add(next);
        }
        for (Gate.Permits p : had) {
            p.unmark(board[0], r.slot, 0);
            p.leave();
        }
        reply.counts = new long[] {had.size()};
    }

    private void hold(Request r, Reply reply) throws Exception {
        if (r.permits > 0) {
            holdPermits(r, reply);
            return;
        }
        held = lock(r.key);
        slot = r.slot;
        held.lockAsync(OWNER).toCompletableFuture().get(LIMIT_SECONDS, TimeUnit.SECONDS);
        reply.overlaps = board[0].enter(slot, Loop.id(0)) ? 0 : 1;
        reply.at = Board.now();
    }

    private void release(Reply reply) throws Exception {
        reply.at = Board.now();
        if (held == null) {
            for (Gate p : permits) {
                p.unmark(board[0], slot, 0);
                p.leave();
            }
            return;
        }
        reply.overlaps = board[0].exit(slot, Loop.id(0)) ? 0 : 1;
        held.unlockAsync(OWNER).toCompletableFuture().get(LIMIT_SECONDS, TimeUnit.SECONDS);
        held = null;
    }

    private void visit(Request r, Reply reply) throws Exception {
        RLock lock = lock(r.key);
        long began = Board.now();
        boolean had = lock.tryLock(r.millis, TimeUnit.MILLISECONDS);
        long granted = Board.now();
        reply.waited = granted - began;
        if (!had) {
            return;
        }
        reply.at = granted;
        reply.counts = new long[] {1};
        reply.overlaps = board[0].enter(r.slot, Loop.id(0)) ? 0 : 1;
        reply.overlaps += board[0].exit(r.slot, Loop.id(0)) ? 0 : 1;
        lock.unlock();
    }

    private void take(Request r, Reply reply) {
        taken = IntStream.range(0, r.goroutines).mapToObj(i -> lock(r.key + ":" + i)).toArray(RLock[]::new);
        AtomicLong overlaps = new AtomicLong();
        inBatches(i -> taken[i].lockAsync(OWNER).toCompletableFuture().thenRun(() -> {
            if (!board[0].enter(i, Loop.id(i))) {
                overlaps.incrementAndGet();
            }
        }));
        reply.overlaps = overlaps.get();
        reply.at = Board.now();
    }

    private void drop(Reply reply) {
        AtomicLong lost = new AtomicLong();
        AtomicLong overlaps = new AtomicLong();
        inBatches(i -> {
            if (!board[0].exit(i, Loop.id(i))) {
                overlaps.incrementAndGet();
            }
            return taken[i].unlockAsync(OWNER).toCompletableFuture().handle((done, error) -> {
                if (error != null) {
                    lost.incrementAndGet();
                }
                return null;
            });
        });
        reply.lost = lost.get();
        reply.overlaps = overlaps.get();
    }

    /** Runs something for every lock taken, 64 at a time as the Go worker does. */
    private void inBatches(java.util.function.IntFunction<CompletableFuture<?>> step) {
        for (int from = 0; from < taken.length; from += 64) {
            CompletableFuture.allOf(IntStream.range(from, Math.min(from + 64, taken.length)).mapToObj(step)
                .toArray(CompletableFuture[]::new)).join();
        }
    }

    Reply.Usage usage() {
        Reply.Usage u = new Reply.Usage();
        u.commands = wire.counts();
        u.cpu = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
        return u;
    }

    /** Usage with the memory of the whole process, thread stacks included, after garbage is gone. */
    private Reply.Usage settled() throws Exception {
        Reply.Usage u = usage();
        System.gc();
        Path statm = Path.of("/proc/self/statm");
        if (Files.exists(statm)) {
            u.memory = Long.parseLong(Files.readString(statm).split(" ")[1]) * 4096;
        }
        return u;
    }
}
