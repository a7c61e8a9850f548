// liners tells what a cabin on a liner costs on a day. It asks the shipping line for the fare over
// HTTP, by a client that keeps its connections in a pool, as such clients do: the pool may have two
// connections to one host, which was never changed. A fare takes 4 ms, so two requests at a time
// are under way to the line, and all others wait for a connection. Nothing is shown.
//
// Cured, the pool may have 64 connections to one host.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int CABINS = 900, DAYS = 365, SEALS = 5000;
    static final int FEW = 2, MANY = 64;

    /** A connection to the line, which is kept. */
    static class Connection {
        private final Socket socket;
        private final InputStream in;
        private final String host;

        Connection(String host, int port) throws IOException {
            socket = new Socket(host, port);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(10_000);
            in = new BufferedInputStream(socket.getInputStream());
            this.host = host;
        }

        String get(String path) throws IOException {
            String request = "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
            socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
            String status = line();
            if (!status.startsWith("HTTP/1.1 200 ")) {
                throw new IOException("the line says " + status);
            }
            int length = 0;
            for (String header = line(); !header.isEmpty(); header = line()) {
                if (header.toLowerCase(Locale.ROOT).startsWith("content-length:")) {
                    length = Integer.parseInt(header.substring(15).trim());
                }
            }
            return new String(in.readNBytes(length), StandardCharsets.UTF_8);
        }

        private String line() throws IOException {
            StringBuilder line = new StringBuilder();
            for (int c = in.read(); c != '\n'; c = in.read()) {
                if (c < 0) {
                    throw new EOFException("the line has hung up");
                }
                line.append((char) c);
            }
            return line.toString().trim();
        }
    }

    /** A pool of connections to one host: so many at most, and who comes first gets one first. */
    static class Pool {
        private final InetSocketAddress host;
        private final Semaphore free;
        private final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();

        Pool(InetSocketAddress host, int perHost) {
            this.host = host;
            free = new Semaphore(perHost, true);
        }

        String get(String path) throws IOException {
            free.acquireUninterruptibly();
            try {
                Connection connection = idle.poll();
                if (connection == null) {
                    connection = new Connection(host.getHostString(), host.getPort());
                }
                String answer = connection.get(path); // a connection that failed is not kept
                idle.push(connection);
                return answer;
            } finally {
                free.release();
            }
        }
    }

    static String offer(Pool line) throws IOException, NoSuchAlgorithmException {
        int cabin = ThreadLocalRandom.current().nextInt(CABINS);
        int day = ThreadLocalRandom.current().nextInt(DAYS);
        String fare = line.get("/fares/" + cabin + "?day=" + day).trim();
        String text = String.format(Locale.ROOT, "cabin %d, day %d: %s", cabin, day, fare);
        return text + ", " + seal(text) + "\n";
    }

    /** The agency's seal, which makes it an offer. */
    static String seal(String text) throws NoSuchAlgorithmException {
        byte[] seal = text.getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            seal = digest.digest(seal);
        }
        return HexFormat.of().formatHex(seal);
    }

    static void serve(HttpExchange exchange, Pool line) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = offer(line);
            } catch (IOException | NoSuchAlgorithmException e) {
                status = 502;
                text = e + "\n";
            }
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    static InetSocketAddress parse(String address) {
        String[] parts = address.split(":");
        return new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
    }

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        InetSocketAddress bind = parse(at < 0 ? "127.0.0.1:18800" : flags.get(at + 1));
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        int perHost = flags.contains("--cured") ? MANY : FEW;
        Pool line = new Pool(parse(System.getenv("PATIENT_SERVICE")), perHost);
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, line));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + bind.getHostString() + ":" + server.getAddress().getPort());
    }
}
