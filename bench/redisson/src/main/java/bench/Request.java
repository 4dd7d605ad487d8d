package bench;

import com.google.gson.annotations.SerializedName;

/** What the bench asks for; the fields are those of the Go worker's protocol. */
final class Request {
    @SerializedName("do") public String verb;
    public String peer;
    public String redis;
    public String board;
    public String key;
    public int slot;
    public int goroutines;
    public int depth;
    public int reads;
    public int permits;
    public int weights;
    public int locks;
    public int together;
    public long start;
    public long millis;
    @SerializedName("lease_ms") public long leaseMs;
    @SerializedName("key_each") public boolean keyEach;
    @SerializedName("cs_us") public long csMicros;
    @SerializedName("warm_ms") public long warmMs;
}
