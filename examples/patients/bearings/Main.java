// bearings tells where a ship is, from the bearings of eight lights. Each request is counted by a
// packet to StatsD, whose name is looked up for each packet, as the machine may move; and since it
// moved once, networkaddress.cache.ttl is 0, so that the JDK asks the name server each time, which
// takes a while, and lets one thread at a time ask for a name. Nothing is shown.
//
// Cured, networkaddress.cache.ttl is left alone: the JDK remembers an address for half a minute.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.Security;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int LIGHTS = 8, STEPS = 28, ROUNDS = 2;
    static final String STATSD = "statsd.harbour.example.";
    static final int PORT = 8125;

    /** Light is where a chart shows it, in sea miles. */
    record Light(String name, double north, double east) {
        /** The bearing of the light for who is there, in radians. */
        double from(double ownNorth, double ownEast) {
            return Math.atan2(east - ownEast, north - ownNorth);
        }
    }

    /** Counter tells StatsD of what happens. */
    static class Counter {
        private final DatagramSocket socket = new DatagramSocket();

        Counter() throws IOException {}

        void count(String what) throws IOException {
            byte[] line = (what + ":1|c").getBytes(StandardCharsets.US_ASCII);
            socket.send(new DatagramPacket(line, line.length, InetAddress.getByName(STATSD), PORT));
        }
    }

    /** The chart, on which the place is looked for that fits best to the bearings. */
    static class Chart {
        private final List<Light> lights = new ArrayList<>();

        Chart() {
            for (int i = 0; i < LIGHTS; i++) {
                lights.add(new Light("light " + i, i * 37 % 60, i * 53 % 60));
            }
        }

        /** How far bearings are from what a place should have. */
        private double error(double[] bearings, double north, double east) {
            double sum = 0;
            for (int i = 0; i < LIGHTS; i++) {
                double off = bearings[i] - lights.get(i).from(north, east);
                off = Math.IEEEremainder(off, 2 * Math.PI);
                sum += off * off;
            }
            return sum;
        }

        String fix() {
            ThreadLocalRandom random = ThreadLocalRandom.current();
            double trueNorth = random.nextDouble(60), trueEast = random.nextDouble(60);
            double[] bearings = new double[LIGHTS];
            for (int i = 0; i < LIGHTS; i++) {
                bearings[i] = lights.get(i).from(trueNorth, trueEast)
                        + random.nextDouble(-0.01, 0.01);
            }
            double north = 30, east = 30, reach = 30;
            StringBuilder text = new StringBuilder();
            for (int round = 0; round < ROUNDS; round++) {
                double best = Double.MAX_VALUE, step = 2 * reach / STEPS;
                double west = east - reach, south = north - reach;
                for (int i = 0; i <= STEPS; i++) {
                    for (int j = 0; j <= STEPS; j++) {
                        double n = south + i * step, e = west + j * step;
                        double error = error(bearings, n, e);
                        if (error < best) {
                            best = error;
                            north = n;
                            east = e;
                        }
                    }
                }
                reach = step;
                text.append(String.format(Locale.ROOT, "%.3f N %.3f E, off by %.6f%n",
                        north, east, best));
            }
            return text.toString();
        }
    }

    static void serve(HttpExchange exchange, Chart chart, Counter counter) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                counter.count("fixes");
                text = chart.fix();
            } catch (IOException e) {
                status = 502;
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
        if (!flags.contains("--cured")) {
            Security.setProperty("networkaddress.cache.ttl", "0");
        }
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Chart chart = new Chart();
        Counter counter = new Counter();
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, chart, counter));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
