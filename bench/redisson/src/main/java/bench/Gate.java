package bench;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;

/** What a thread enters and leaves: a lock, or a semaphore for some permits. */
interface Gate {
    void enter() throws InterruptedException;

    void leave();

    /** Marks the entry; false when too many are in. */
    boolean mark(Board board, int slot, long id);

    /** Takes the mark away; false when it was not there any more. */
    boolean unmark(Board board, int slot, long id);

    /** When the last holder before left. */
    default long lastExit(Board board, int slot) {
        return board.lastExit(slot);
    }

    /** A lock. The marks of its readers are left out, since they may be many. */
    record Lock(RLock lock, boolean shared) implements Gate {
        @Override
        public void enter() throws InterruptedException {
            lock.lockInterruptibly();
        }

        @Override
        public void leave() {
            lock.unlock();
        }

        @Override
        public boolean mark(Board board, int slot, long id) {
            return shared || board.enter(slot, id);
        }

        @Override
        public boolean unmark(Board board, int slot, long id) {
            return shared || board.exit(slot, id);
        }
    }

    /** Several locks together; chosen are their numbers, from the slot on. */
    record Several(RLock multi, int[] chosen) implements Gate {
        @Override
        public void enter() throws InterruptedException {
            multi.lockInterruptibly();
        }

        @Override
        public void leave() {
            multi.unlock();
        }

        @Override
        public boolean mark(Board board, int slot, long id) {
            boolean alone = true;
            for (int n : chosen) {
                alone &= board.enter(slot + n, id);
            }
            return alone;
        }

        @Override
        public boolean unmark(Board board, int slot, long id) {
            boolean mine = true;
            for (int n : chosen) {
                mine &= board.exit(slot + n, id);
            }
            return mine;
        }

        @Override
        public long lastExit(Board board, int slot) {
            return Arrays.stream(chosen).mapToLong(n -> board.lastExit(slot + n)).max().orElse(0);
        }
    }

    /** Some of the permits of a semaphore, for one entry. */
    final class Permits implements Gate {
        private final RPermitExpirableSemaphore semaphore;
        private final int n;
        private final int k;
        private final long leaseMs;
        private List<String> ids;

        Permits(RPermitExpirableSemaphore semaphore, int n, int k, long leaseMs) {
            this.semaphore = semaphore;
            this.n = n;
            this.k = k;
            this.leaseMs = leaseMs;
        }

        @Override
        public void enter() throws InterruptedException {
            ids = k == 1 ? List.of(semaphore.acquire(leaseMs, TimeUnit.MILLISECONDS))
                : semaphore.acquire(k, leaseMs, TimeUnit.MILLISECONDS);
        }

        /** Enters within some time, if it can; for one permit. */
        boolean enter(long waitMs) throws InterruptedException {
            String id = semaphore.tryAcquire(waitMs, leaseMs, TimeUnit.MILLISECONDS);
            ids = id == null ? null : List.of(id);
            return id != null;
        }

        @Override
        public void leave() {
            if (k == 1) {
                semaphore.release(ids.get(0));
            } else {
                semaphore.release(ids);
            }
        }

        @Override
        public boolean mark(Board board, int slot, long id) {
            return board.acquire(slot, n, k);
        }

        @Override
        public boolean unmark(Board board, int slot, long id) {
            board.release(slot, k);
            return true;
        }
    }
}
