package relock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Arrays;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The commands of the line protocol. Times are milliseconds; a lease of -1 is the watchdog's. */
final class Commands {
    private final RedissonClient redisson;

    Commands(RedissonClient redisson) {
        this.redisson = redisson;
    }

    /** Runs a command whose first argument, where it has one, is kind:name: a kind of lock, or permits. */
    Object run(String command, String[] args) throws Exception {
        switch (command) {
            case "threadId":
                return Thread.currentThread().getId();
            case "load":
                return new Load(redisson, args).run();
            case "holders":
                return redisson.getMap(args[0], StringCodec.INSTANCE).readAllMap();
            case "readLock":
                redisson.getReadWriteLock(args[0]).readLock().lock(number(args, 1), MILLISECONDS);
                return "";
            default:
                if (args[0].startsWith("permits:")) {
                    return new Permits(redisson, args[0].split(":", 2)[1]).run(command, args);
                }
                return onLock(command, args[0], args);
        }
    }

    private Object onLock(String command, String which, String[] args) throws Exception {
        RLock lock = lock(redisson, which);
        switch (command) {
            case "lock":
                lock.lock(number(args, 1), MILLISECONDS);
                return "";
            case "tryLock":
                return lock.tryLock(number(args, 1), number(args, 2), MILLISECONDS);
            case "unlock":
                lock.unlock();
                return "";
            case "forceUnlock":
                return lock.forceUnlock();
            case "isLocked":
                return lock.isLocked();
            case "isHeldByThread":
                return lock.isHeldByThread(number(args, 1));
            case "getHoldCount":
                return lock.getHoldCount();
            case "remainTimeToLive":
                return lock.remainTimeToLive();
            case "lockAndGetToken":
                return ((RFencedLock) lock).lockAndGetToken();
            case "tryLockAndGetToken":
                return ((RFencedLock) lock).tryLockAndGetToken(number(args, 1), number(args, 2), MILLISECONDS);
            case "getToken":
                return ((RFencedLock) lock).getToken();
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }

    static RLock lock(RedissonClient redisson, String which) {
        String[] kindAndName = which.split(":", 2);
        switch (kindAndName[0]) {
            case "lock":
                return redisson.getLock(kindAndName[1]);
            case "fenced":
                return redisson.getFencedLock(kindAndName[1]);
            case "fair":
                return redisson.getFairLock(kindAndName[1]);
            case "spin":
                return redisson.getSpinLock(kindAndName[1]);
            case "read":
                return redisson.getReadWriteLock(kindAndName[1]).readLock();
            case "write":
                return redisson.getReadWriteLock(kindAndName[1]).writeLock();
            case "multi":
                return redisson.getMultiLock(Arrays.stream(kindAndName[1].split(",")).map(one -> lock(redisson, one))
                        .toArray(RLock[]::new));
            default:
                throw new IllegalArgumentException("no kind of lock " + kindAndName[0]);
        }
    }

    private static long number(String[] args, int i) {
        return Long.parseLong(args[i]);
    }
}
