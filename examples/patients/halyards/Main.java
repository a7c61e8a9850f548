// halyards tells a rigger how far the halyards of a boat stretch, rope by rope and wind by wind. The
// height of the boat's mast is what another service knows; the heights of the boats that were asked
// for last are kept. So that no height is asked for twice, a lock is held from the look into what
// is kept until the answer is there, and one boat that is not known holds up all the others.
//
// Cured, the lock is not held while the other service is asked.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int BOATS = 1000, KEPT = 700, REQUESTS = 64;
    static final int WINDS = 24; // in knots, each two more than the one before
    static final int GUSTS = 120; // that a rope has to bear in one wind

    /** A rope: its name, its breaking load in newtons, and its stretch at that load. */
    record Rope(String name, double strength, double stretch) {}

    static final List<Rope> ROPES = List.of(
            new Rope("polyester", 31_000, 0.14),
            new Rope("aramid", 47_000, 0.034),
            new Rope("polyethylene", 56_000, 0.037));

    /** The heights of masts in metres, by the number of the boat. */
    static class Masts {
        private final String address;
        private final boolean cured;
        private final Map<Integer, Double> kept =
                Collections.synchronizedMap(new LinkedHashMap<>(2 * KEPT, 0.75f, true) {
                    @Override
                    protected boolean removeEldestEntry(Map.Entry<Integer, Double> eldest) {
                        return size() > KEPT;
                    }
                });

        Masts(String address, boolean cured) {
            this.address = address;
            this.cured = cured;
        }

        double heightOf(int boat) {
            if (cured) {
                return find(boat);
            }
            synchronized (this) {
                return find(boat);
            }
        }

        private double find(int boat) {
            Double height = kept.get(boat);
            if (height == null) {
                height = ask(boat);
                kept.put(boat, height);
            }
            return height;
        }

        private double ask(int boat) {
            try (InputStream in = new URL("http://" + address + "/?boat=" + boat).openStream()) {
                return 8 + (in.readAllBytes().length * 31 + boat) % 140 / 10.0;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /** What a boat's halyards do in each of the winds. */
    static String table(int boat, double height) {
        StringBuilder table = new StringBuilder("boat " + boat + ", mast " + height + " m\n");
        for (int wind = 2; wind <= 2 * WINDS; wind += 2) {
            table.append(wind).append(" knots");
            for (Rope rope : ROPES) {
                double millimetres = 1000 * longest(rope, height, wind);
                table.append(", ").append(rope.name()).append(' ');
                table.append(Math.round(millimetres)).append(" mm");
            }
            table.append('\n');
        }
        return table.toString();
    }

    /** How many metres a halyard is longer at its longest, in so many gusts of a wind. */
    static double longest(Rope rope, double height, int wind) {
        double longest = 0, creep = 0;
        for (int gust = 0; gust < GUSTS; gust++) {
            double speed = wind * 0.514 * (1 + 0.4 * Math.sin(gust * 0.7));
            double load = 0.6 * speed * speed * height * height * 0.12;
            double share = Math.min(1, load / rope.strength());
            creep += 1e-5 * Math.pow(share, 1.5);
            longest = Math.max(longest, height * (rope.stretch() * share + creep));
        }
        return longest;
    }

    static void serve(HttpExchange exchange, Masts masts) throws IOException {
        try (exchange) {
            int boat = ThreadLocalRandom.current().nextInt(BOATS);
            byte[] body = table(boat, masts.heightOf(boat)).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        // Connections are kept, and answers are not held back for the client's acknowledgement.
        System.setProperty("http.maxConnections", "256");
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Masts masts = new Masts(System.getenv("PATIENT_SERVICE"), flags.contains("--cured"));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(REQUESTS));
        server.createContext("/", exchange -> serve(exchange, masts));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
