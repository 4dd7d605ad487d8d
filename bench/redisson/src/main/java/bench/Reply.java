package bench;

import java.util.Map;

/** The answer to a Request. */
final class Reply {
    public String error;
    public long at;
    public long[] counts;
    public long failed;
    public String failure;
    public long overlaps;
    public int hung;
    public long lost;
    public long waited;
    public long[] arrived;
    public long[] granted;
    public String wait;
    public String handover;
    public String pair;
    public Usage usage = new Usage();

    /** What a process has used up. */
    static final class Usage {
        public Map<String, Long> commands = Map.of();
        public long cpu;
        public long memory;

        Usage since(Usage before) {
            Usage u = new Usage();
            u.commands = new java.util.HashMap<>(commands);
            u.commands.replaceAll((name, n) -> n - before.commands.getOrDefault(name, 0L));
            u.commands.values().removeIf(n -> n <= 0);
            u.cpu = cpu - before.cpu;
            u.memory = memory;
            return u;
        }
    }
}
