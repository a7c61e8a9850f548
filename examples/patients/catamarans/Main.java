// catamarans shows the sheet of a catamaran for hire: what the charter office says about the boat,
// and the prices of the days to come. Boats that were asked for lately are kept in an LRU map, and
// Collections.synchronizedMap wraps it. Its computeIfAbsent calls the office while it holds the
// map's monitor: while one boat is fetched all requests wait, also for boats that are kept.
//
// Cured, the map is asked with get, the office is called without the monitor, and put keeps the
// boat.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int BOATS = 4000, KEPT = 500, DAYS = 180;
    static final int ROUNDS = 40; // of the seal of a price

    record Boat(int id, String name, int price) {}

    /** A map that keeps the boats that were asked for last. */
    static class Recent extends LinkedHashMap<Integer, Boat> {
        Recent() {
            super(KEPT * 2, 0.75f, true);
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<Integer, Boat> eldest) {
            return size() > KEPT;
        }
    }

    /** The boats, which the charter office knows. */
    static class Fleet {
        private final Map<Integer, Boat> boats = Collections.synchronizedMap(new Recent());
        private final String office;
        private final boolean cured;

        Fleet(String office, boolean cured) {
            this.office = office;
            this.cured = cured;
        }

        Boat boat(int id) {
            if (!cured) {
                return boats.computeIfAbsent(id, this::fetch);
            }
            Boat boat = boats.get(id);
            if (boat == null) {
                boat = fetch(id);
                boats.put(id, boat);
            }
            return boat;
        }

        private Boat fetch(int id) {
            try (InputStream in = new URL("http://" + office + "/?boat=" + id).openStream()) {
                int length = in.readAllBytes().length;
                return new Boat(id, "Catamaran-" + id, 200 + (id + length) % 300);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /** The sheet: a price for each day, with the seal that a customer shows at the quay. */
    static String sheet(Boat boat) throws GeneralSecurityException {
        MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
        StringBuilder sheet = new StringBuilder(boat.name() + ", boat " + boat.id() + "\n");
        for (int day = 1; day <= DAYS; day++) {
            String offer = boat.name() + " day " + day + " for " + (boat.price() + day % 7 * 15);
            byte[] seal = offer.getBytes(StandardCharsets.UTF_8);
            for (int i = 0; i < ROUNDS; i++) {
                seal = sha256.digest(seal);
            }
            sheet.append(offer).append(' ').append(HexFormat.of().formatHex(seal, 0, 8));
            sheet.append('\n');
        }
        return sheet.toString();
    }

    /** Some boats are asked for much more often than others. */
    static int anyBoat() {
        return (int) (BOATS * Math.pow(ThreadLocalRandom.current().nextDouble(), 8));
    }

    static void serve(HttpExchange exchange, Fleet fleet) throws IOException {
        try (exchange) {
            byte[] body = sheet(fleet.boat(anyBoat())).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
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
        Fleet fleet = new Fleet(System.getenv("PATIENT_SERVICE"), flags.contains("--cured"));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, fleet));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
