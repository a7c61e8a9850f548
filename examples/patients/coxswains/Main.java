// coxswains tells the coxswain of a lifeboat, before a launch, what another service says about the
// tide and the crew on call. It is asked for both at once, by tasks on an executor that all
// requests share. The executor has as many threads as there are processors, which is right for
// computing, but these tasks only wait for an answer, and the others stand in the queue.
//
// Cured, the executor has 128 threads, enough for what all requests that are served at once ask.
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
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int STATIONS = 230, REQUESTS = 64, HOURS = 96;
    static final int ROUNDS = 85; // of the seal of an hour

    /** What the other services know about a station. */
    static class Reports {
        private static final List<String> SUBJECTS = List.of("tide", "crew");
        private final String address;
        private final ExecutorService executor;

        Reports(String address, boolean cured) {
            this.address = address;
            int processors = Runtime.getRuntime().availableProcessors();
            int threads = cured ? REQUESTS * SUBJECTS.size() : processors;
            executor = Executors.newFixedThreadPool(threads);
        }

        List<String> about(int station) {
            List<CompletableFuture<String>> answers = SUBJECTS.stream()
                    .map(s -> CompletableFuture.supplyAsync(() -> ask(s, station), executor))
                    .toList();
            return answers.stream().map(CompletableFuture::join).toList();
        }

        private String ask(String subject, int station) {
            String url = "http://" + address + "/?" + subject + "=" + station;
            try (InputStream in = new URL(url).openStream()) {
                int level = (in.readAllBytes().length * 31 + station) % 10;
                return subject + " at station " + station + ": " + level;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /** The orders: the reports, and the hours of a watch, each with a seal for the log. */
    static String orders(int station, List<String> reports) throws GeneralSecurityException {
        MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
        StringBuilder orders = new StringBuilder(String.join("\n", reports)).append('\n');
        for (int hour = 0; hour < HOURS; hour++) {
            String watch = "station " + station + " hour " + hour + " watch " + hour / 4;
            byte[] seal = (watch + reports).getBytes(StandardCharsets.UTF_8);
            for (int i = 0; i < ROUNDS; i++) {
                seal = sha256.digest(seal);
            }
            orders.append(watch).append(' ').append(HexFormat.of().formatHex(seal, 0, 8));
            orders.append('\n');
        }
        return orders.toString();
    }

    static void serve(HttpExchange exchange, Reports reports) throws IOException {
        try (exchange) {
            int station = ThreadLocalRandom.current().nextInt(STATIONS);
            String orders = orders(station, reports.about(station));
            byte[] body = orders.getBytes(StandardCharsets.UTF_8);
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
        Reports reports = new Reports(System.getenv("PATIENT_SERVICE"), flags.contains("--cured"));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(REQUESTS));
        server.createContext("/", exchange -> serve(exchange, reports));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
