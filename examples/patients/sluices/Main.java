// sluices tells whether a sluice may be opened. It asks the gauge above it and the one below how
// high the water is, in the threads of an executor: 8 threads, which may become 64. But what is
// asked stands in a LinkedBlockingQueue, which is never full, and a ThreadPoolExecutor makes more
// threads only when its queue is full; so 8 questions at a time are asked, and all others wait.
// Nothing is shown.
//
// Cured, the executor has 64 threads as its core.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

public class Main {
    static final int SLUICES = 300, STEPS = 3000, SEALS = 900;
    static final int FEW = 8, MANY = 64;

    /** Gauges are asked over HTTP, by threads that wait for the answer. */
    static class Gauges {
        private final String address;
        private final ExecutorService asking;

        Gauges(String address, ExecutorService asking) {
            this.address = address;
            this.asking = asking;
        }

        Future<Integer> level(String gauge) {
            return asking.submit(() -> ask(gauge));
        }

        private int ask(String gauge) throws IOException {
            URL url = new URL("http://" + address + "/gauges/" + gauge);
            HttpURLConnection connection = (HttpURLConnection) url.openConnection();
            connection.setConnectTimeout(10_000);
            connection.setReadTimeout(10_000);
            try (InputStream in = connection.getInputStream()) {
                return in.readAllBytes().length * gauge.length();
            }
        }
    }

    /** How long it takes until the water stands as high on both sides, in steps of a second. */
    static double fall(int sluice, double above, double below) {
        double wide = 1 + sluice % 9 / 10.0, through = 0;
        for (int i = 0; i < STEPS && above > below; i++) {
            double litres = wide * Math.sqrt(2 * 9.81 * (above - below));
            above -= litres / 40_000;
            below += litres / 25_000;
            through += litres;
        }
        return through;
    }

    static String sheet(Gauges gauges) throws Exception {
        int sluice = ThreadLocalRandom.current().nextInt(SLUICES);
        Future<Integer> up = gauges.level("above/" + sluice);
        Future<Integer> down = gauges.level("down/" + sluice);
        double above = up.get() / 10.0, below = down.get() / 10.0 - 4;
        String line = String.format(Locale.ROOT, "sluice %d: %.2f m above, %.2f below, %.1f litres",
                sluice, above, below, fall(sluice, above, below));
        return line + ", " + seal(line) + "\n";
    }

    /** The harbour master's seal. */
    static String seal(String line) throws NoSuchAlgorithmException {
        byte[] seal = line.getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            seal = digest.digest(seal);
        }
        return HexFormat.of().formatHex(seal);
    }

    static void serve(HttpExchange exchange, Gauges gauges) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = sheet(gauges);
            } catch (ExecutionException e) {
                status = 502;
                text = e.getCause() + "\n";
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
        // Connections are kept, and answers are not held back for the client's acknowledgement.
        System.setProperty("http.maxConnections", "256");
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        int core = flags.contains("--cured") ? MANY : FEW;
        ExecutorService asking = new ThreadPoolExecutor(core, MANY, 1, TimeUnit.MINUTES,
                new LinkedBlockingQueue<>());
        Gauges gauges = new Gauges(System.getenv("PATIENT_SERVICE"), asking);
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, gauges));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
