package relock.interop;

import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Increments a number in Redis under a lock, by reading it and writing it back, in several threads. Each increment is a
 * line of a journal: token, asked, locked and unlocking in microseconds, the last two taken inside the lock. Of the kind
 * rw:percent:name, so many of a hundred rounds read the number only; for a token stands 0 for a reader, 1 for a writer.
 *
 * <p>Of the kind permits:k:name a round has k permits of a semaphore, and for their time adds k to the number, by INCRBY.
 * For a token stands what the number then is: how many permits were held.
 */
final class Load {
    /** Milliseconds that permits are taken for: the watchdog's time, which locks have. */
    private static final long LEASE = 30_000;

    private final RedissonClient redisson;
    private final String which;
    private final String counter;
    private final int threads;
    private final int rounds;
    private final long until;
    private final String journal;

    /** args: kind:name, counter key or "", threads, rounds a thread (0: no bound), duration (0: no bound), journal. */
    Load(RedissonClient redisson, String[] args) {
        this.redisson = redisson;
        which = args[0];
        counter = args[1];
        threads = Integer.parseInt(args[2]);
        rounds = args[3].equals("0") ? Integer.MAX_VALUE : Integer.parseInt(args[3]);
        until = args[4].equals("0") ? Long.MAX_VALUE : Driver.micros() + 1000 * Long.parseLong(args[4]);
        journal = args[5];
    }

    /** Returns the number of increments. */
    long run() throws Exception {
        List<Worker> workers = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            workers.add(new Worker());
        }
        workers.forEach(Thread::start);
        long count = 0;
        try (PrintWriter out = new PrintWriter(journal, StandardCharsets.UTF_8)) {
            for (Worker worker : workers) {
                worker.join();
                if (worker.failure != null) {
                    throw worker.failure;
                }
                for (long[] line : worker.lines) {
                    out.println(line[0] + "\t" + line[1] + "\t" + line[2] + "\t" + line[3]);
                }
                count += worker.lines.size();
            }
        }
        return count;
    }

    private final class Worker extends Thread {
        private final List<long[]> lines = new ArrayList<>();
        private Exception failure;

        @Override
        public void run() {
            try {
                RBucket<String> number = redisson.getBucket(counter, StringCodec.INSTANCE);
                String[] kindAndName = which.split(":", 2);
                if (kindAndName[0].equals("rw")) {
                    String[] percentAndName = kindAndName[1].split(":", 2);
                    readOrWrite(Integer.parseInt(percentAndName[0]), percentAndName[1], number);
                    return;
                }
                if (kindAndName[0].equals("permits")) {
                    String[] manyAndName = kindAndName[1].split(":", 2);
                    take(Integer.parseInt(manyAndName[0]), new Permits(redisson, manyAndName[1]));
                    return;
                }
                RLock lock = Commands.lock(redisson, which);
                for (int i = 0; i < rounds && Driver.micros() < until; i++) {
                    increment(lock, number);
                }
            } catch (Exception e) {
                failure = e;
            }
        }

        private void readOrWrite(int percent, String name, RBucket<String> number) {
            RLock reader = Commands.lock(redisson, "read:" + name);
            RLock writer = Commands.lock(redisson, "write:" + name);
            Random random = new Random();
            for (int i = 0; i < rounds && Driver.micros() < until; i++) {
                boolean reads = random.nextInt(100) < percent;
                RLock lock = reads ? reader : writer;
                long asked = Driver.micros();
                lock.lock();
                long locked = Driver.micros();
                String old = number.get();
                if (!reads) {
                    number.set(Long.toString(old == null ? 1 : Long.parseLong(old) + 1));
                }
                lines.add(new long[] {reads ? 0 : 1, asked, locked, Driver.micros()});
                lock.unlock();
            }
        }

        private void take(int many, Permits permits) throws Exception {
            RAtomicLong held = redisson.getAtomicLong(counter);
            for (int i = 0; i < rounds && Driver.micros() < until; i++) {
                long asked = Driver.micros();
                String ids = permits.acquire(many, LEASE);
                long acquired = Driver.micros();
                lines.add(new long[] {held.addAndGet(many), asked, acquired, Driver.micros()});
                held.addAndGet(-many);
                permits.release(ids);
            }
        }

        private void increment(RLock lock, RBucket<String> number) {
            long asked = Driver.micros();
            long token = lock instanceof RFencedLock ? ((RFencedLock) lock).lockAndGetToken() : 0;
            if (token == 0) {
                lock.lock();
            }
            long locked = Driver.micros();
            if (!counter.isEmpty()) {
                String old = number.get();
                number.set(Long.toString(old == null ? 1 : Long.parseLong(old) + 1));
            }
            lines.add(new long[] {token, asked, locked, Driver.micros()});
            lock.unlock();
        }
    }
}
