// shuttles shows how many people a line of shuttle boats has carried today, each counted once.
// Redis has a bitmap for each line, with a bit for each number that a card can have, and BITCOUNT
// goes through all of it for each request, on the one thread that Redis has.
//
// Cured, a number was counted up whenever SETBIT said that a card was new, and GET asks for it.
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
import java.util.Random;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int LINES = 6, CARDS = 14_000_000, RIDES = 5000, BOATS = 240;
    static final int CONNECTIONS = 48, ROUNDS = 8; // of a seal

    /** A connection to Redis: commands are sent at once, and each is answered with a word. */
    static class Redis {
        private final Socket socket;
        private final InputStream in;

        Redis(String address) throws IOException {
            String[] parts = address.split(":");
            socket = new Socket(parts[0], Integer.parseInt(parts[1]));
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream());
        }

        List<String> ask(String... commands) throws IOException {
            StringBuilder text = new StringBuilder();
            for (String command : commands) {
                String[] words = command.split(" ");
                text.append("*" + words.length + "\r\n");
                for (String word : words) {
                    text.append("$" + word.length() + "\r\n" + word + "\r\n");
                }
            }
            socket.getOutputStream().write(text.toString().getBytes(StandardCharsets.US_ASCII));
            List<String> answers = new ArrayList<>();
            while (answers.size() < commands.length) {
                String line = line();
                if (line.charAt(0) == '-') {
                    throw new IOException(line);
                }
                // a word comes after a line with its length
                answers.add(line.charAt(0) == '$' ? line() : line.substring(1));
            }
            return answers;
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

    /** Jetty knows who was carried: it fills Redis with the rides of a day, and asks for them. */
    static class Jetty {
        private final LinkedBlockingDeque<Redis> free = new LinkedBlockingDeque<>();
        private final boolean cured;

        Jetty(String address, boolean cured) throws IOException {
            this.cured = cured;
            for (int i = 0; i < CONNECTIONS; i++) {
                free.add(new Redis(address));
            }
            for (int line = 0; line < LINES; line++) {
                ride(free.getFirst(), line);
            }
        }

        private static void ride(Redis redis, int line) throws IOException {
            String riders = "riders:" + line, people = "people:" + line;
            redis.ask("DEL " + riders + " " + people, "SET name:" + line + " Line-" + line);
            Random cards = new Random(line);
            String[] rides = new String[RIDES];
            // The first card has the highest number, so that the bitmap has to grow only once.
            for (int i = 0; i < RIDES; i++) {
                int card = i == 0 ? CARDS - 1 : cards.nextInt(CARDS);
                rides[i] = "SETBIT " + riders + " " + card + " 1";
            }
            List<String> counts = new ArrayList<>();
            for (String before : redis.ask(rides)) {
                if (before.equals("0")) {
                    counts.add("INCR " + people);
                }
            }
            redis.ask(counts.toArray(new String[0]));
        }

        /** The name of a line, and how many people it has carried. */
        List<String> ask(int line) throws IOException, InterruptedException {
            String people = cured ? "GET people:" + line : "BITCOUNT riders:" + line;
            Redis redis = free.takeFirst();
            try {
                return redis.ask("GET name:" + line, people);
            } finally {
                free.addFirst(redis);
            }
        }
    }

    /** The page: how many there were, and the boats that are still to come, with their seals. */
    static String page(String name, long people) throws GeneralSecurityException {
        MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
        StringBuilder page = new StringBuilder(name + " has carried " + people + " people\n");
        for (int boat = 1; boat <= BOATS; boat++) {
            String text = name + " boat " + boat + ", about " + people / BOATS + " people";
            byte[] seal = text.getBytes(StandardCharsets.UTF_8);
            for (int i = 0; i < ROUNDS; i++) {
                seal = sha256.digest(seal);
            }
            page.append(text).append(' ').append(HexFormat.of().formatHex(seal, 0, 8)).append('\n');
        }
        return page.toString();
    }

    static void serve(HttpExchange exchange, Jetty jetty) throws IOException {
        try (exchange) {
            List<String> line = jetty.ask(ThreadLocalRandom.current().nextInt(LINES));
            String page = page(line.get(0), Long.parseLong(line.get(1)));
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
        Jetty jetty = new Jetty(System.getenv("PATIENT_REDIS"), flags.contains("--cured"));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, jetty));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
