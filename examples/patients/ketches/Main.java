// ketches tells what it costs to fit out a ketch. There is a standard fit for each yard, and a
// customer changes some of it, so each request works on a copy of its own. The copy is made with
// Java's serialization, as the usual helpers for deep copies do: all parts are written to an array
// of bytes, and read from it again, class descriptions and all. A flight recording is shown.
//
// Cured, each part has a constructor that copies it.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class Main {
    static final int YARDS = 12, SAILS = 8, ROPES = 1500, CHANGES = 12, SEALS = 3800;

    static class Rope implements Serializable {
        final String name;
        final int sail;
        final long cents;
        int metres;

        Rope(String name, int sail, long cents, int metres) {
            this.name = name;
            this.sail = sail;
            this.cents = cents;
            this.metres = metres;
        }

        Rope(Rope other) {
            this(other.name, other.sail, other.cents, other.metres);
        }
    }

    /** The ropes that a ketch is fitted out with. */
    static class Fit implements Serializable {
        final String yard;
        final Rope[] ropes = new Rope[ROPES];

        Fit(String yard) {
            this.yard = yard;
        }

        Fit(Fit other) {
            this(other.yard);
            Arrays.setAll(ropes, i -> new Rope(other.ropes[i]));
        }

        static Fit standard(int yard) {
            Fit fit = new Fit("yard " + yard);
            Arrays.setAll(fit.ropes,
                    i -> new Rope("rope " + i, i % SAILS, 120 + i + yard, 6 + i % 24));
            return fit;
        }

        /** A deep copy, for any class that is Serializable. */
        static Fit copy(Fit fit) throws IOException, ClassNotFoundException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
                out.writeObject(fit);
            }
            var in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()));
            return (Fit) in.readObject();
        }
    }

    static String offer(List<Fit> standard, boolean byHand) throws Exception {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        Fit usual = standard.get(random.nextInt(YARDS));
        Fit fit = byHand ? new Fit(usual) : Fit.copy(usual);
        for (int i = 0; i < CHANGES; i++) {
            fit.ropes[random.nextInt(ROPES)].metres += random.nextInt(1, 20);
        }
        long[] cents = new long[SAILS];
        for (Rope rope : fit.ropes) {
            cents[rope.sail] += rope.metres * rope.cents;
        }
        StringBuilder page = new StringBuilder(fit.yard).append('\n');
        for (int sail = 0; sail < SAILS; sail++) {
            page.append("sail ").append(sail).append(": ").append(cents[sail] / 100).append('\n');
        }
        return page.append(seal(page.toString())).append('\n').toString();
    }

    /** The seal of the yard, which makes the list an offer. */
    static String seal(String text) throws NoSuchAlgorithmException {
        byte[] seal = text.getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            seal = digest.digest(seal);
        }
        return HexFormat.of().formatHex(seal);
    }

    static void serve(HttpExchange exchange, List<Fit> standard, boolean byHand)
            throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = offer(standard, byHand);
            } catch (Exception e) {
                status = 500;
                text = e + "\n";
            }
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        List<Fit> standard = IntStream.range(0, YARDS).mapToObj(Fit::standard)
                .collect(Collectors.toList());
        boolean byHand = flags.contains("--cured");
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, standard, byHand));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
