// luggers tells what duty is due on what a lugger has landed. It asks the customs for the rate, and
// shows them a token, which it has from them too and keeps: a token is good for five minutes, and
// is renewed in time. But the time was set to five minutes as well, so each token is old as soon as
// it is there. Every request asks for a new one, which takes 2 ms, and one thread at a time does
// so: the others wait for the lock that guards the token. Nothing is shown.
//
// Cured, a token is renewed half a minute before its end.
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
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int GOODS = 1200, SEALS = 7000;
    static final Duration GOOD_FOR = Duration.ofMinutes(5);
    static final Duration TOO_EARLY = Duration.ofMinutes(5), IN_TIME = Duration.ofSeconds(30);

    /** The customs, asked over connections that are kept. */
    static class Customs {
        private final String url;

        Customs(String address) {
            url = "http://" + address;
        }

        String get(String path, String token) throws IOException {
            HttpURLConnection call = (HttpURLConnection) new URL(url + path).openConnection();
            call.setConnectTimeout(5_000);
            call.setReadTimeout(10_000);
            if (token != null) {
                call.setRequestProperty("Authorization", "Bearer " + token);
            }
            try (InputStream in = call.getInputStream()) {
                return new String(in.readAllBytes(), StandardCharsets.UTF_8).trim();
            }
        }
    }

    /** The token that is shown to the customs. */
    static class Tokens {
        private final Customs customs;
        private final Duration early;
        private String token;
        private long end; // by System.nanoTime

        Tokens(Customs customs, Duration early) {
            this.customs = customs;
            this.early = early;
        }

        /** The lock is there so that many who find an old token do not all ask for a new one. */
        synchronized String current() throws IOException {
            if (token == null || System.nanoTime() > end - early.toNanos()) {
                long asked = System.nanoTime(); // the customs count from when they give it out
                token = hex(customs.get("/token", null).getBytes(StandardCharsets.UTF_8));
                end = asked + GOOD_FOR.toNanos();
            }
            return token;
        }
    }

    static String duty(Customs customs, Tokens tokens)
            throws IOException, NoSuchAlgorithmException {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        int goods = random.nextInt(GOODS), casks = random.nextInt(1, 90);
        String rate = customs.get("/rates/" + goods, tokens.current());
        String text = String.format(Locale.ROOT, "%d casks of %d: %s", casks, goods, rate);
        return text + ", " + seal(text) + "\n";
    }

    /** The seal of the house, without which nobody pays. */
    static String seal(String text) throws NoSuchAlgorithmException {
        byte[] seal = text.getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            seal = digest.digest(seal);
        }
        return hex(seal);
    }

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    static void serve(HttpExchange exchange, Customs customs, Tokens tokens) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = duty(customs, tokens);
            } catch (IOException | NoSuchAlgorithmException e) {
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
        // Connections are kept, and answers are not held back for the client's acknowledgement.
        System.setProperty("http.maxConnections", "256");
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Customs customs = new Customs(System.getenv("PATIENT_SERVICE"));
        Tokens tokens = new Tokens(customs, flags.contains("--cured") ? IN_TIME : TOO_EARLY);
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, customs, tokens));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
