import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;

/**
 * A web server that holds its objects on Java's heap, in many small pieces, as programs
 * in Java hold theirs: whoever marks what lives comes by all of their pages.
 *
 *     Heap ADDRESS PORT GARBAGE
 *
 * It listens at ADDRESS, 0.0.0.0 for all. PUT lays an object there, and is answered by it. GET gives it, after GARBAGE KiB have
 * been allocated, and forgotten when it is answered, so that a collector has its work
 * now and then. GET / tells that it serves, GET /collections how many collections there
 * were and for how many milliseconds. It runs until it is told to terminate.
 */
final class Heap {
    /** Bytes of a piece. */
    private static final int PIECE = 1024;

    /** The longest object, in bytes. */
    private static final int LONGEST = 1 << 20;

    private final Map<String, byte[][]> objects = new ConcurrentHashMap<>();
    private final int garbage;

    private Heap(int garbage) {
        this.garbage = garbage;
    }

    public static void main(String[] arguments) throws IOException {
        if (arguments.length != 3 || !arguments[0].matches("[0-9.]{7,15}") || !arguments[1].matches("[0-9]{1,5}") || !arguments[2].matches("[0-9]{1,7}")) {
            System.err.println("usage: Heap ADDRESS PORT GARBAGE");
            System.exit(2);
        }
        Heap heap = new Heap(Integer.parseInt(arguments[2]));
        HttpServer server = HttpServer.create(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])), 1024);
        server.setExecutor(Executors.newFixedThreadPool(Math.max(2, Runtime.getRuntime().availableProcessors())));
        server.createContext("/", exchange -> answer(exchange, 200, "heap\n".getBytes(StandardCharsets.US_ASCII)));
        server.createContext("/collections", exchange -> answer(exchange, 200, collections()));
        server.createContext("/o/", heap::serve);
        server.start();
    }

    private void serve(HttpExchange exchange) throws IOException {
        String name = exchange.getRequestURI().getPath();
        switch (exchange.getRequestMethod()) {
            case "PUT" -> {
                byte[] content = exchange.getRequestBody().readNBytes(LONGEST + 1);
                if (content.length > LONGEST) {
                    answer(exchange, 413, new byte[0]);
                    return;
                }
                byte[][] pieces = cut(content);
                objects.put(name, pieces);
                answer(exchange, 200, join(pieces));
            }
            case "GET" -> {
                byte[][] pieces = objects.get(name);
                if (pieces == null) {
                    answer(exchange, 404, new byte[0]);
                    return;
                }
                List<byte[]> waste = waste();
                answer(exchange, waste.size() == garbage ? 200 : 500, join(pieces));
            }
            default -> answer(exchange, 405, new byte[0]);
        }
    }

    private List<byte[]> waste() {
        List<byte[]> pieces = new ArrayList<>();
        for (int i = 0; i < garbage; i++) {
            pieces.add(new byte[PIECE]);
        }
        return pieces;
    }

    private static byte[][] cut(byte[] content) {
        byte[][] pieces = new byte[(content.length + PIECE - 1) / PIECE][];
        for (int i = 0; i < pieces.length; i++) {
            int length = Math.min(PIECE, content.length - i * PIECE);
            pieces[i] = new byte[length];
            System.arraycopy(content, i * PIECE, pieces[i], 0, length);
        }
        return pieces;
    }

    private static byte[] join(byte[][] pieces) {
        int length = 0;
        for (byte[] piece : pieces) {
            length += piece.length;
        }
        byte[] content = new byte[length];
        int at = 0;
        for (byte[] piece : pieces) {
            System.arraycopy(piece, 0, content, at, piece.length);
            at += piece.length;
        }
        return content;
    }

    private static byte[] collections() {
        long count = 0;
        long milliseconds = 0;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            count += collector.getCollectionCount();
            milliseconds += collector.getCollectionTime();
        }
        return ("{\"collections\": " + count + ", \"milliseconds\": " + milliseconds + "}\n").getBytes(StandardCharsets.US_ASCII);
    }

    private static void answer(HttpExchange exchange, int status, byte[] body) throws IOException {
        // Closing the two streams, and not the exchange, keeps the connection.
        exchange.getRequestBody().close();
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        try (OutputStream to = exchange.getResponseBody()) {
            to.write(body);
        }
    }
}
