package relock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** The commands on RPermitExpirableSemaphore. Permits are their ids, with commas between them. A lease of -1 never ends. */
final class Permits {
    private final RPermitExpirableSemaphore semaphore;

    Permits(RedissonClient redisson, String name) {
        semaphore = redisson.getPermitExpirableSemaphore(name);
    }

    Object run(String command, String[] args) throws Exception {
        switch (command) {
            case "acquire":
                return acquire(number(args, 1), number(args, 2));
            case "tryAcquire":
                return tryAcquire(number(args, 1), number(args, 2), number(args, 3));
            case "release":
                release(args[1]);
                return "";
            case "tryRelease":
                return semaphore.tryRelease(args[1]);
            case "availablePermits":
                return semaphore.availablePermits();
            case "acquiredPermits":
            case "getPermits":
                return call(command);
            case "setPermits":
                call(command, (int) number(args, 1));
                return "";
            case "addPermits":
                semaphore.addPermits((int) number(args, 1));
                return "";
            case "trySetPermits":
                return semaphore.trySetPermits((int) number(args, 1));
            case "updateLeaseTime":
                return semaphore.updateLeaseTime(args[1], number(args, 2), MILLISECONDS);
            case "getLeaseTime":
                return call(command, args[1]);
            case "delete":
                return semaphore.delete();
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }

    String acquire(long permits, long lease) throws Exception {
        if (permits == 1) {
            return semaphore.acquire(lease, MILLISECONDS);
        }
        return join(call("acquire", (int) permits, lease, MILLISECONDS));
    }

    private String tryAcquire(long permits, long wait, long lease) throws Exception {
        if (permits == 1) {
            String id = semaphore.tryAcquire(wait, lease, MILLISECONDS);
            return id == null ? "" : id;
        }
        return join(call("tryAcquire", (int) permits, wait, lease, MILLISECONDS));
    }

    void release(String ids) throws Exception {
        if (!ids.contains(",")) {
            semaphore.release(ids);
            return;
        }
        call("release", Arrays.asList(ids.split(",")));
    }

    private static String join(Object ids) {
        return String.join(",", ((List<?>) ids).stream().map(Object::toString).toList());
    }

    /** Calls what not every Redisson that is tested has, so that one source compiles with each. */
    private Object call(String name, Object... args) throws Exception {
        for (Method method : RPermitExpirableSemaphore.class.getMethods()) {
            if (method.getName().equals(name) && fits(method.getParameterTypes(), args)) {
                try {
                    return method.invoke(semaphore, args);
                } catch (InvocationTargetException e) {
                    throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
                }
            }
        }
        throw new UnsupportedOperationException("this Redisson has no " + name);
    }

    private static boolean fits(Class<?>[] types, Object[] args) {
        if (types.length != args.length) {
            return false;
        }
        for (int i = 0; i < args.length; i++) {
            Class<?> type = types[i] == int.class ? Integer.class : types[i] == long.class ? Long.class : types[i];
            if (!type.isInstance(args[i])) {
                return false;
            }
        }
        return true;
    }

    private static long number(String[] args, int i) {
        return Long.parseLong(args[i]);
    }
}
