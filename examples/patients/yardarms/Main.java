// yardarms tells a rigger what a yard of his ship may carry. What a yard is made of and when it was
// last tried is in its certificate, which another service keeps; those that were asked for last are
// remembered here. The method that looks one up is synchronized, since the map that remembers is
// not made for many threads. So when a certificate is not there, everybody waits until the other
// service has answered, also those whose certificates are there.
//
// Cured, only the looks into the map hold the lock, and the other service is asked without it.
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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int YARDS = 300, REMEMBERED = 240, REQUESTS = 64;
    static final int ANGLES = 60; // for which a request works out the load
    static final int ROUNDS = 24; // of the seal of an angle

    /** The certificates of the yards, as the other service has them. */
    static class Registry {
        private final String address;

        Registry(String address) {
            this.address = address;
        }

        String ask(int yard) {
            String url = "http://" + address + "/?yard=" + yard;
            try (InputStream in = new URL(url).openStream()) {
                int length = in.readAllBytes().length;
                return "yard " + yard + " of pine, tried in " + (1790 + yard % (length + 20));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /** Forgets what was not asked for longest. */
    static class Memory extends LinkedHashMap<Integer, String> {
        Memory() {
            super(REMEMBERED, 0.75f, true);
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<Integer, String> eldest) {
            return size() > REMEMBERED;
        }
    }

    /** Certificates by their yards: remembered, or asked for. Any thread may call. */
    static class Certificates {
        final Memory memory = new Memory();
        final Registry registry;

        Certificates(Registry registry) {
            this.registry = registry;
        }

        synchronized String certificateOf(int yard) {
            return memory.computeIfAbsent(yard, registry::ask);
        }
    }

    /** Certificates that are asked for without the lock. */
    static class UnlockedCertificates extends Certificates {
        UnlockedCertificates(Registry registry) {
            super(registry);
        }

        @Override
        String certificateOf(int yard) {
            String certificate = remembered(yard);
            if (certificate == null) {
                certificate = registry.ask(yard);
                remember(yard, certificate);
            }
            return certificate;
        }

        private synchronized String remembered(int yard) {
            return memory.get(yard);
        }

        private synchronized void remember(int yard, String certificate) {
            memory.put(yard, certificate);
        }
    }

    /** What the yard may carry at each angle of its brace, with a seal for the log. */
    static String loads(int yard, String certificate) throws GeneralSecurityException {
        MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
        StringBuilder loads = new StringBuilder(certificate).append('\n');
        for (int angle = 0; angle < ANGLES; angle++) {
            long kilos = Math.round((900 + yard % 400) * Math.cos(Math.toRadians(angle)));
            byte[] seal = (certificate + kilos).getBytes(StandardCharsets.UTF_8);
            for (int i = 0; i < ROUNDS; i++) {
                seal = sha256.digest(seal);
            }
            loads.append(angle).append("°: ").append(kilos).append(" kg ");
            loads.append(HexFormat.of().formatHex(seal, 0, 8)).append('\n');
        }
        return loads.toString();
    }

    static void serve(HttpExchange exchange, Certificates certificates) throws IOException {
        try (exchange) {
            int yard = ThreadLocalRandom.current().nextInt(YARDS);
            String loads = loads(yard, certificates.certificateOf(yard));
            byte[] body = loads.getBytes(StandardCharsets.UTF_8);
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
        Registry registry = new Registry(System.getenv("PATIENT_SERVICE"));
        Certificates certificates = flags.contains("--cured")
                ? new UnlockedCertificates(registry) : new Certificates(registry);
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(REQUESTS));
        server.createContext("/", exchange -> serve(exchange, certificates));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
