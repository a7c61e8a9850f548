// pilots tells which pilot is the next on board. What has to be done later is given to an executor with one thread,
// which one request in 30 makes for itself and does not shut down, so that the thread is left behind.
//
// Cured, there is one executor for all requests.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

public class Main {
    static final int PILOTS = 2500, NOTED = 30;

    record Pilot(String name, double north, double east, int draught) {
        double miles(double fromNorth, double fromEast) {
            double across = (east - fromEast) * Math.cos(Math.toRadians((north + fromNorth) / 2));
            return 60 * Math.hypot(north - fromNorth, across);
        }
    }

    /** The pilots, and the log of who was sent. */
    static class Station {
        private final List<Pilot> pilots = new ArrayList<>();
        private final AtomicLong asked = new AtomicLong(), noted = new AtomicLong();
        private final Supplier<Executor> later;

        Station(Supplier<Executor> later) {
            this.later = later;
            for (int i = 0; i < PILOTS; i++) {
                pilots.add(new Pilot("Pilot " + i, 54 + i * 37 % 900 / 1000.0, 10 + i * 53 % 900 / 1000.0, 3 + i % 12));
            }
        }

        String next() throws GeneralSecurityException {
            ThreadLocalRandom random = ThreadLocalRandom.current();
            double north = 54 + random.nextDouble(), east = 10 + random.nextDouble();
            int draught = random.nextInt(3, 9);
            List<Pilot> near = new ArrayList<>(pilots);
            near.removeIf(p -> p.draught() < draught);
            near.sort(Comparator.comparingDouble((Pilot p) -> p.miles(north, east)).thenComparing(Pilot::name));
            if (asked.incrementAndGet() % NOTED == 0) {
                later.get().execute(noted::incrementAndGet);
            }
            StringBuilder list = new StringBuilder();
            for (Pilot p : near.subList(0, 12)) {
                list.append(list.length() == 0 ? "" : ",").append(String.format(Locale.ROOT,
                        "{\"name\":\"%s\",\"miles\":%.2f,\"draught\":%d}", p.name(), p.miles(north, east), p.draught()));
            }
            byte[] seal = MessageDigest.getInstance("SHA-256").digest(list.toString().getBytes(StandardCharsets.UTF_8));
            return "{\"seal\":\"" + HexFormat.of().formatHex(seal, 0, 8) + "\",\"noted\":" + noted + ",\"pilots\":[" + list + "]}\n";
        }
    }

    static void serve(HttpExchange exchange, Station station) throws IOException {
        try (exchange) {
            byte[] body = station.next().getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
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
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Executor one = Executors.newFixedThreadPool(1);
        Station station = new Station(flags.contains("--cured") ? () -> one : () -> Executors.newFixedThreadPool(1));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, station));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
