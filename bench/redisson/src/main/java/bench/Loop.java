package bench;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.Histogram;

/** Threads that lock and unlock as fast as they can, or once; measured as the Go worker does. */
final class Loop {
    private static final long GRACE_MS = 5000;
    private static final long SLACK_NS = 200_000;
    private static final long PID = ProcessHandle.current().pid();

    private final Session session;
    private final Request r;
    private final long end;
    private final AtomicLongArray counts;
    private final AtomicLongArray since;
    private final Thread[] threads;
    private final Histogram wait = histogram();
    private final Histogram handover = histogram();
    private final Histogram pair = histogram();
    private final AtomicLong failed = new AtomicLong();
    private final AtomicLong overlaps = new AtomicLong();
    private final AtomicLong first = new AtomicLong();
    private final AtomicLong done = new AtomicLong();
    private final List<long[]> order = Collections.synchronizedList(new ArrayList<>());
    private volatile String failure;
    private volatile boolean stop;

    Loop(Session session, Request r) {
        this.session = session;
        this.r = r;
        end = r.start + r.millis * 1_000_000;
        counts = new AtomicLongArray(r.goroutines);
        since = new AtomicLongArray(r.goroutines);
        threads = new Thread[r.goroutines];
    }

    /** Unique among all threads of all workers. */
    static long id(int thread) {
        return PID << 24 | (thread + 1);
    }

    private static Histogram histogram() {
        Histogram h = new ConcurrentHistogram(1, 3_600_000_000_000L, 3);
        h.setAutoResize(false);
        return h;
    }

    void measure(Reply reply) throws Exception {
        CountDownLatch begin = new CountDownLatch(1);
        launch(g -> {
            begin.await();
            while (!stop) {
                once(g);
            }
        });
        sleepUntil(r.start - r.warmMs * 1_000_000);
        begin.countDown();
        sleepUntil(r.start);
        Reply.Usage before = session.usage();
        sleepUntil(end);
        stop = true;
        reply.usage = session.usage().since(before);
        for (int g = 0; g < since.length(); g++) {
            long began = since.get(g);
            if (began > 0 && began < r.start) {
                record(wait, end - began);
            }
            if (began > 0 && began < end) {
                order(began, end);
            }
        }
        sendHome(reply);
        fill(reply);
        reply.counts = new long[counts.length()];
        Arrays.setAll(reply.counts, counts::get);
    }

    private interface Body {
        void run(int thread) throws Exception;
    }

    private void launch(Body body) {
        for (int g = 0; g < threads.length; g++) {
            int n = g;
            threads[g] = new Thread(() -> {
                try {
                    body.run(n);
                } catch (InterruptedException e) {
                    // sent home
                } catch (Exception e) {
                    fail(e);
                }
            });
            threads[g].setDaemon(true);
            threads[g].start();
        }
    }

    private void once(int g) throws InterruptedException {
        int slot = r.keyEach ? r.slot + g : r.slot;
        Gate gate = session.gate(r, r.keyEach ? r.key + ":" + g : r.key);
        long began = Board.now();
        since.set(g, began);
        enter(gate, slot, g);
        long granted = Board.now();
        since.set(g, 0);
        long last = gate.lastExit(session.board[0], slot);
        if (granted <= end) {
            order(began, granted);
        }
        long inner = nest(gate, granted);
        work(r.csMicros * 1000);
        leave(gate, slot, g);
        if (granted < r.start || granted > end) {
            return;
        }
        counts.addAndGet(g, Math.max(1, r.depth));
        record(wait, inner > 0 ? inner : granted - began);
        if (last > began) {
            record(handover, granted - last);
        }
        if (r.csMicros == 0) {
            record(pair, Board.now() - began);
        }
    }

    /** Notes when an acquisition with weights was asked for and granted. */
    private void order(long began, long granted) {
        if (r.weights > 0) {
            order.add(new long[] {began, granted});
        }
    }

    /** Takes the lock, again if Redisson gives up. */
    private void enter(Gate gate, int slot, int g) throws InterruptedException {
        for (boolean held = false; !held; ) {
            try {
                gate.enter();
                held = true;
            } catch (RuntimeException e) {
                if (stop) {
                    throw new InterruptedException();
                }
                fail(e);
            }
        }
        if (!gate.mark(session.board[0], slot, id(g))) {
            overlaps.incrementAndGet();
        }
    }

    private void leave(Gate gate, int slot, int g) {
        if (!gate.unmark(session.board[0], slot, id(g))) {
            overlaps.incrementAndGet();
        }
        try {
            gate.leave();
        } catch (RuntimeException e) {
            fail(e);
        }
    }

    /** Enters the lock again as deep as asked for and leaves; returns how long the first inner lock took, 0 if none. */
    private long nest(Gate gate, long from) throws InterruptedException {
        long inner = 0;
        for (int depth = 1; depth < r.depth; depth++) {
            gate.enter();
            inner = inner == 0 ? Board.now() - from : inner;
        }
        for (int depth = 1; depth < r.depth; depth++) {
            gate.leave();
        }
        return inner;
    }

    void startWaiting() throws InterruptedException {
        CountDownLatch asked = new CountDownLatch(r.goroutines);
        launch(g -> {
            asked.countDown();
            long began = Board.now();
            Gate gate = session.gate(r, r.key);
            enter(gate, r.slot, g);
            long granted = Board.now();
            first.compareAndSet(0, granted);
            long last = session.board[0].lastExit(r.slot);
            leave(gate, r.slot, g);
            record(wait, granted - began);
            if (last > began) {
                record(handover, granted - last);
            }
            done.incrementAndGet();
        });
        asked.await();
    }

    /** Waits for those of startWaiting and sends home who has not had the lock in time. */
    void join(long millis, Reply reply) throws Exception {
        long limit = System.nanoTime() + millis * 1_000_000;
        for (Thread t : threads) {
            long left = (limit - System.nanoTime()) / 1_000_000;
            if (left > 0) {
                t.join(left);
            }
        }
        stop = true;
        sendHome(reply);
        fill(reply);
        reply.at = first.get();
        reply.counts = new long[] {done.get()};
    }

    private void sendHome(Reply reply) throws InterruptedException {
        long limit = System.nanoTime() + GRACE_MS * 1_000_000;
        for (Thread t : threads) {
            if (r.together == 0) { // an RMultiLock goes on when it is interrupted, and forgets a lock that it has
                t.interrupt();
            }
        }
        for (Thread t : threads) {
            t.join(Math.max(1, (limit - System.nanoTime()) / 1_000_000));
            reply.hung += t.isAlive() ? 1 : 0;
        }
    }

    private void fill(Reply reply) {
        reply.failed = failed.get();
        reply.failure = failure;
        reply.overlaps = overlaps.get();
        synchronized (order) {
            reply.arrived = order.stream().mapToLong(v -> v[0]).toArray();
            reply.granted = order.stream().mapToLong(v -> v[1]).toArray();
        }
        reply.wait = encoded(wait);
        reply.handover = encoded(handover);
        reply.pair = encoded(pair);
    }

    private void fail(Exception e) {
        if (!stop) {
            failed.incrementAndGet();
            failure = String.valueOf(e).replace("\n", "; ");
        }
    }

    private static void record(Histogram h, long ns) {
        h.recordValue(Math.max(1, Math.min(ns, h.getHighestTrackableValue())));
    }

    /** The Go library keeps a histogram as base64, and JSON turns its bytes into base64 once more. */
    private static String encoded(Histogram h) {
        ByteBuffer buf = ByteBuffer.allocate(h.getNeededByteBufferCapacity());
        int n = h.encodeIntoCompressedByteBuffer(buf);
        byte[] text = Base64.getEncoder().encode(Arrays.copyOf(buf.array(), n));
        return Base64.getEncoder().encodeToString(text);
    }

    private static void sleepUntil(long at) {
        for (long left = at - Board.now(); left > 0; left = at - Board.now()) {
            LockSupport.parkNanos(left);
        }
    }

    /** A critical section: it sleeps for most of its time and spins the rest, to be exact. */
    private static void work(long ns) {
        long begin = System.nanoTime();
        if (ns > 2 * SLACK_NS) {
            LockSupport.parkNanos(ns - SLACK_NS);
        }
        while (System.nanoTime() - begin < ns) {
            Thread.onSpinWait();
        }
    }
}
