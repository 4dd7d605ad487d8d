package bench;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A client process of the bench with Redisson's locks: JSON requests, a line each, on stdin, answers on stdout. */
public final class Worker {
    private Worker() {}

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err); // only answers may go to stdout
        Gson json = new Gson();
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(lines));
        reader.setDaemon(true);
        reader.start();
        Session session = new Session();
        while (true) {
            Request request = json.fromJson(lines.take(), Request.class);
            Reply reply = new Reply();
            try {
                session.answer(request, reply);
            } catch (Exception e) {
                reply.error = String.valueOf(e);
            }
            out.println(json.toJson(reply));
        }
    }

    /** The end of stdin is the end of the bench: there is nobody left to finish for. */
    private static void read(BlockingQueue<String> lines) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                lines.add(line);
            }
        } catch (java.io.IOException e) {
            System.err.println(e);
        }
        Runtime.getRuntime().halt(0);
    }
}
