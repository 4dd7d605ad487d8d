package relock.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Does with a real Redisson what the lines of standard input say, until its end.
 *
 * <p>A line is {@code id TAB thread TAB command TAB arguments...}. Each thread name is a thread of its own that runs
 * its commands in order; different threads overlap. The answer is {@code id TAB ok|error TAB value TAB began TAB ended},
 * the last two in microseconds of the wall clock around the command. The first line written is the client's id.
 *
 * <p>Arguments: Redisson's configuration as YAML, and optionally a prefix that a NameMapper puts before every name.
 */
public final class Driver {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        Config config = Config.fromYAML(args[0]);
        if (args.length > 1) {
            prefixNames(config, args[1]);
        }
        RedissonClient redisson = Redisson.create(config);
        Commands commands = new Commands(redisson);
        Map<String, ExecutorService> threads = new HashMap<>();
        OUT.println(redisson.getId());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            threads.computeIfAbsent(words[1], Driver::thread).execute(() -> run(commands, words));
        }
        Runtime.getRuntime().halt(0); // as a process that ends without unlocking
    }

    private static ExecutorService thread(String name) {
        return Executors.newSingleThreadExecutor(task -> new Thread(task, name));
    }

    private static void run(Commands commands, String[] words) {
        String[] args = Arrays.copyOfRange(words, 3, words.length);
        long began = micros();
        String answer;
        try {
            answer = "ok\t" + commands.run(words[2], args);
        } catch (Throwable e) {
            answer = "error\t" + e.toString().replaceAll("\\s+", " ");
        }
        OUT.println(words[0] + "\t" + answer + "\t" + began + "\t" + micros());
    }

    /** The wall clock, which all processes of a machine share. */
    static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    /** NameMapper moved to another package and its setter to another class in the course of Redisson 3 and 4. */
    private static void prefixNames(Config config, String prefix) throws Exception {
        Object target = Arrays.stream(Config.class.getMethods()).anyMatch(m -> m.getName().equals("setNameMapper"))
                ? config : config.useSingleServer();
        for (Method setter : target.getClass().getMethods()) {
            if (setter.getName().equals("setNameMapper")) {
                Class<?> mapper = setter.getParameterTypes()[0];
                setter.invoke(target, Proxy.newProxyInstance(mapper.getClassLoader(), new Class<?>[] {mapper},
                        (proxy, method, names) -> method.getName().equals("map")
                                ? prefix + names[0] : ((String) names[0]).substring(prefix.length())));
                return;
            }
        }
        throw new IllegalStateException("this Redisson has no NameMapper");
    }
}
