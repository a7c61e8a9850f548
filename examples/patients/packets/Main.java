// packets shows which mail packets leave next. They are in Redis as a list and a hash for each, and
// SORT puts the list in order BY the times in the hashes, so Redis looks into the hash of each
// packet for each request, on its one thread, though eight are shown.
//
// Cured, Redis has them in a sorted set by their times, and is asked for the first eight.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int HARBOURS = 12, PACKETS = 1500, SHOWN = 8, LABELS = 110, CONNECTIONS = 48;

    /** A connection to Redis: commands are sent, and words or lists of words come back. */
    static class Redis {
        private final Socket socket;
        private final InputStream in;

        Redis(String address) throws IOException {
            String[] parts = address.split(":");
            socket = new Socket(parts[0], Integer.parseInt(parts[1]));
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream());
        }

        /** Sends commands at once, and returns the words of each answer. */
        List<List<String>> ask(String[]... commands) throws IOException {
            StringBuilder text = new StringBuilder();
            for (String[] words : commands) {
                text.append("*" + words.length + "\r\n");
                for (String word : words) {
                    text.append("$" + word.length() + "\r\n" + word + "\r\n");
                }
            }
            socket.getOutputStream().write(text.toString().getBytes(StandardCharsets.US_ASCII));
            List<List<String>> answers = new ArrayList<>();
            for (int i = 0; i < commands.length; i++) {
                List<String> words = new ArrayList<>();
                read(words);
                answers.add(words);
            }
            return answers;
        }

        private void read(List<String> words) throws IOException {
            String line = line();
            char kind = line.charAt(0);
            if (kind == '-') {
                throw new IOException(line);
            }
            for (int i = kind == '*' ? Integer.parseInt(line.substring(1)) : 0; i > 0; i--) {
                read(words);
            }
            if (kind != '*') {
                words.add(kind == '$' ? line() : line.substring(1));
            }
        }

        private String line() throws IOException {
            StringBuilder line = new StringBuilder();
            for (int c = in.read(); c != '\r'; c = in.read()) {
                if (c < 0) {
                    throw new IOException("Redis is gone");
                }
                line.append((char) c);
            }
            in.read();
            return line.toString();
        }
    }

    /** Board has the next packets of a harbour; fills Redis with them, and asks for them. */
    static class Board {
        private final LinkedBlockingDeque<Redis> free = new LinkedBlockingDeque<>();
        private final boolean cured;

        Board(String address, boolean cured) throws IOException {
            this.cured = cured;
            for (int i = 0; i < CONNECTIONS; i++) {
                free.add(new Redis(address));
            }
            for (int harbour = 0; harbour < HARBOURS; harbour++) {
                fill(free.getFirst(), harbour);
            }
        }

        private static void fill(Redis redis, int harbour) throws IOException {
            String list = "packets:" + harbour, times = "times:" + harbour;
            List<String[]> commands = new ArrayList<>();
            commands.add(new String[] {"DEL", list, times});
            for (int i = 0; i < PACKETS; i++) {
                String id = harbour + "-" + i;
                String at = String.valueOf(1_790_000_000L + i * 7919L % PACKETS * 60);
                commands.add(new String[] {"RPUSH", list, id});
                commands.add(new String[] {"ZADD", times, at, id});
                commands.add(("HSET packet:" + id + " name Packet-" + i + " at " + at
                        + " bags " + (10 + i % 90)).split(" "));
            }
            redis.ask(commands.toArray(new String[0][]));
        }

        private String[] next(int harbour) {
            String words = cured
                    ? "ZRANGE times:" + harbour + " 0 " + (SHOWN - 1)
                    : "SORT packets:" + harbour + " BY packet:*->at LIMIT 0 " + SHOWN;
            return words.split(" ");
        }

        List<List<String>> ask(int harbour) throws IOException, InterruptedException {
            Redis redis = free.takeFirst();
            try {
                List<String[]> commands = new ArrayList<>();
                for (String id : redis.ask(next(harbour)).get(0)) {
                    commands.add(new String[] {"HMGET", "packet:" + id, "name", "at", "bags"});
                }
                return redis.ask(commands.toArray(new String[0][]));
            } finally {
                free.addFirst(redis);
            }
        }
    }

    /** The page: a line for each packet, and labels for its first bags. */
    static String page(List<List<String>> packets) throws GeneralSecurityException {
        MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
        StringBuilder page = new StringBuilder();
        for (List<String> packet : packets) {
            page.append(packet.get(0)).append(" at ").append(packet.get(1)).append('\n');
            for (int bag = 1; bag <= LABELS; bag++) {
                String label = packet.get(0) + "/" + bag + " of " + packet.get(2);
                byte[] seal = sha256.digest(label.getBytes(StandardCharsets.UTF_8));
                String hex = HexFormat.of().formatHex(seal, 0, 8);
                page.append(label).append(' ').append(hex).append('\n');
            }
        }
        return page.toString();
    }

    static void serve(HttpExchange exchange, Board board) throws IOException {
        try (exchange) {
            String page = page(board.ask(ThreadLocalRandom.current().nextInt(HARBOURS)));
            byte[] body = page.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (InterruptedException | GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        // Connections are kept, and answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Board board = new Board(System.getenv("PATIENT_REDIS"), flags.contains("--cured"));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, board));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
