// tracks shows where a ship has been. Each request draws a chart into a new large array and keeps it among the last
// ones, so the old generation fills with charts that were dropped. Now and then the serial collector stops all to
// look through the many positions that are kept there too.
//
// Cured, a chart is drawn into the array of the one that it takes the place of.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int SHIPS = 1000, POSITIONS = 1500, CHARTS = 400, WIDE = 224, HIGH = 224, TURNS = 32;

    record Position(double north, double east) {
        double far(Position other) {
            double across = (east - other.east) * Math.cos(Math.toRadians((north + other.north) / 2));
            return 60 * Math.hypot(north - other.north, across);
        }
    }

    /** The last charts, for those who come to fetch the picture. */
    static class Charts {
        private final byte[][] last = new byte[CHARTS][];
        private final boolean cured;
        private int next;

        Charts(boolean cured) {
            this.cured = cured;
        }

        /** An array to draw into. */
        synchronized byte[] sheet() {
            byte[] old = last[next];
            last[next] = null;
            next = (next + 1) % CHARTS;
            return cured && old != null ? old : new byte[WIDE * HIGH];
        }

        synchronized void keep(byte[] chart) {
            for (int i = 0; i < CHARTS; i++) {
                int at = (next + CHARTS - 1 - i) % CHARTS;
                if (last[at] == null) {
                    last[at] = chart;
                    return;
                }
            }
        }
    }

    static class Fleet {
        private final List<List<Position>> tracks = new ArrayList<>();
        private final Charts charts;

        Fleet(Charts charts) {
            this.charts = charts;
            for (int ship = 0; ship < SHIPS; ship++) {
                List<Position> track = new LinkedList<>();
                for (int i = 0; i < POSITIONS; i++) {
                    track.add(new Position(54 + (ship * 37 + i) % 900 / 1000.0, 10 + (ship * 53 + i * 7) % 900 / 1000.0));
                }
                tracks.add(track);
            }
        }

        /** A chart has the track on it, and how far each place is from it. */
        private void draw(byte[] chart, List<Position> track) {
            Arrays.fill(chart, (byte) 0);
            for (Position p : track) {
                int x = (int) ((p.east() - 10) * WIDE), y = (int) ((p.north() - 54) * HIGH);
                chart[y * WIDE + x] = (byte) 64;
            }
            for (int turn = 0; turn < TURNS; turn++) {
                for (int i = WIDE + 1; i < chart.length - WIDE - 1; i++) {
                    int near = Math.max(Math.max(chart[i - 1], chart[i + 1]), Math.max(chart[i - WIDE], chart[i + WIDE]));
                    chart[i] = (byte) Math.max(chart[i], near - 9);
                }
            }
        }

        String show() throws GeneralSecurityException {
            int ship = ThreadLocalRandom.current().nextInt(SHIPS);
            List<Position> track = tracks.get(ship);
            byte[] chart = charts.sheet();
            draw(chart, track);
            byte[] seal = MessageDigest.getInstance("SHA-256").digest(chart);
            charts.keep(chart);
            double miles = 0;
            Position before = track.get(0);
            for (Position p : track) {
                miles += p.far(before);
                before = p;
            }
            return "{\"ship\":" + ship + ",\"miles\":" + Math.round(miles) + ",\"chart\":\"" + HexFormat.of().formatHex(seal) + "\"}\n";
        }
    }

    static void serve(HttpExchange exchange, Fleet fleet) throws IOException {
        try (exchange) {
            byte[] body = fleet.show().getBytes(StandardCharsets.UTF_8);
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
        Fleet fleet = new Fleet(new Charts(flags.contains("--cured")));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, fleet));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
