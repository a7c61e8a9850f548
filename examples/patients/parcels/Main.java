// parcels says what it costs to send a parcel, for which it asks the carrier over HTTPS. After an outage with
// stale connections somebody has set http.keepAlive to false, so each request begins with a connection of its
// own and a TLS handshake.
//
// Cured, connections are kept, as Java does by itself.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

public class Main {
    record Tariff(String zone, int grams, long cents) {}

    static final List<Tariff> TARIFFS = IntStream.range(0, 600)
            .mapToObj(i -> new Tariff("Z" + i % 12, 250 * (1 + i / 12), 390 + 31L * (i * 7 % 400)))
            .collect(Collectors.toList());

    /** The carrier, whom each request asks. */
    static class Carrier {
        private final URL url;
        private final SSLSocketFactory sockets;

        Carrier(String address, String certificate) throws IOException, GeneralSecurityException {
            url = new URL("https://" + address + "/surcharge");
            sockets = trusting(Path.of(certificate)).getSocketFactory();
        }

        String surcharge() throws IOException {
            HttpsURLConnection connection = (HttpsURLConnection) url.openConnection();
            connection.setSSLSocketFactory(sockets);
            connection.setConnectTimeout(5000);
            connection.setReadTimeout(10000);
            try (InputStream in = connection.getInputStream()) {
                return new String(in.readAllBytes(), StandardCharsets.US_ASCII).split(" ")[0];
            }
        }

        private static SSLContext trusting(Path certificate) throws IOException, GeneralSecurityException {
            KeyStore known = KeyStore.getInstance(KeyStore.getDefaultType());
            known.load(null, null);
            try (InputStream in = Files.newInputStream(certificate)) {
                known.setCertificateEntry("carrier", CertificateFactory.getInstance("X.509").generateCertificate(in));
            }
            TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            managers.init(known);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, managers.getTrustManagers(), null);
            return context;
        }
    }

    /** What parcels of some weights cost in all zones, with what the carrier asks for on top. */
    static String quote(String surcharge) throws GeneralSecurityException {
        int grams = ThreadLocalRandom.current().nextInt(250, 4000);
        long more = Long.parseLong(surcharge);
        String prices = TARIFFS.stream().filter(t -> t.grams() >= grams && t.grams() < grams + 2000)
                .sorted((a, b) -> Long.compare(a.cents(), b.cents()))
                .map(t -> String.format(Locale.ROOT, "{\"zone\":\"%s\",\"grams\":%d,\"euros\":%.2f}", t.zone(), t.grams(),
                        (t.cents() + more) / 100.0))
                .collect(Collectors.joining(",", "[", "]"));
        byte[] seal = MessageDigest.getInstance("SHA-256").digest(prices.getBytes(StandardCharsets.UTF_8));
        return "{\"grams\":" + grams + ",\"seal\":\"" + HexFormat.of().formatHex(seal, 0, 8) + "\",\"prices\":" + prices + "}\n";
    }

    static void serve(HttpExchange exchange, Carrier carrier) throws IOException {
        try (exchange) {
            byte[] body = quote(carrier.surcharge()).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] words) throws IOException, GeneralSecurityException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        System.setProperty("http.keepAlive", String.valueOf(flags.contains("--cured")));
        System.setProperty("http.maxConnections", "256");
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Carrier carrier = new Carrier(System.getenv("PATIENT_SERVICE"), System.getenv("PATIENT_CERTIFICATE"));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, carrier));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
