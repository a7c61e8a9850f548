// javaorders takes orders over the JDK's HTTP server, with threads enough. An order needs the next number of
// the day from the registry, which takes 2 ms, and the class that asks for it is synchronized as a whole:
// one request at a time is in it, and the other threads wait at its monitor.
//
// Cured, only the count of what was given out is made under the monitor.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;

public class Main {
    record Line(String sku, int pieces, long cents) {
        long total() {
            return pieces * cents;
        }
    }

    /** Gives out numbers. */
    interface Numbers {
        String next() throws IOException;
    }

    /** The registry, asked over connections that are kept. */
    static class Registry {
        private final URL url;
        private long given;

        Registry(String address) throws IOException {
            url = new URL("http://" + address + "/next");
        }

        synchronized String nextInTurn() throws IOException {
            String from = ask();
            return from + "-" + ++given;
        }

        String nextAtOnce() throws IOException {
            String from = ask();
            synchronized (this) {
                return from + "-" + ++given;
            }
        }

        private String ask() throws IOException {
            try (var in = ((HttpURLConnection) url.openConnection()).getInputStream()) {
                return new String(in.readAllBytes(), StandardCharsets.US_ASCII).split(" ")[0];
            }
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
        Numbers numbers = flags.contains("--cured") ? registry::nextAtOnce : registry::nextInTurn;
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, numbers));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }

    static void serve(HttpExchange exchange, Numbers numbers) throws IOException {
        try (exchange) {
            byte[] body = confirm(numbers.next(), basket()).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    static List<Line> basket() {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        List<Line> lines = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            lines.add(new Line("P" + random.nextInt(1000, 2000), random.nextInt(1, 9), random.nextInt(99, 9999)));
        }
        return lines;
    }

    static String confirm(String number, List<Line> lines) {
        String shown = lines.stream().sorted((a, b) -> a.sku().compareTo(b.sku()))
                .map(l -> String.format(Locale.ROOT, "{\"sku\":\"%s\",\"pieces\":%d,\"price\":%.2f}", l.sku(),
                        l.pieces(), l.total() / 100.0))
                .collect(Collectors.joining(",", "[", "]"));
        try {
            byte[] seal = MessageDigest.getInstance("SHA-256").digest(shown.getBytes(StandardCharsets.UTF_8));
            return "{\"order\":\"" + number + "\",\"seal\":\"" + HexFormat.of().formatHex(seal) + "\",\"lines\":" + shown + "}\n";
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
