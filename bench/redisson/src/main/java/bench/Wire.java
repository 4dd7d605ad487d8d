package bench;

import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelOutboundHandlerAdapter;
import io.netty.channel.ChannelPromise;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.client.DefaultNettyHook;

/** Counts the commands that are written to Redis, by name. */
final class Wire extends DefaultNettyHook {
    private final Map<String, Long> counts = new ConcurrentHashMap<>();

    @Override
    public void afterChannelInitialization(Channel channel) {
        channel.pipeline().addFirst(new Reader());
    }

    Map<String, Long> counts() {
        return Map.copyOf(counts);
    }

    /** Follows the stream of one connection: *N, then N times $length and that many bytes, cut anywhere. */
    private final class Reader extends ChannelOutboundHandlerAdapter {
        private final StringBuilder line = new StringBuilder();
        private final StringBuilder name = new StringBuilder();
        private int skip;
        private boolean first;

        @Override
        public void write(ChannelHandlerContext ctx, Object msg, ChannelPromise promise) {
            if (msg instanceof ByteBuf buf) {
                feed(buf);
            }
            ctx.write(msg, promise);
        }

        private void feed(ByteBuf buf) {
            for (int i = buf.readerIndex(); i < buf.writerIndex(); ) {
                if (skip > 0) {
                    int n = Math.min(skip, buf.writerIndex() - i);
                    if (first) {
                        name.append(buf.toString(i, n, StandardCharsets.US_ASCII));
                    }
                    skip -= n;
                    i += n;
                    if (skip == 0 && first) {
                        first = false;
                        counts.merge(name.toString().trim().toLowerCase(Locale.ROOT), 1L, Long::sum);
                    }
                    continue;
                }
                char c = (char) buf.getByte(i++);
                if (c != '\n') {
                    line.append(c);
                    continue;
                }
                header(line.toString().trim());
                line.setLength(0);
            }
        }

        private void header(String text) {
            if (text.startsWith("*")) {
                first = true;
                name.setLength(0);
            } else if (text.startsWith("$")) {
                skip = Integer.parseInt(text.substring(1)) + 2;
            }
        }
    }
}
