// couriers says where a letter is. The office is asked within ConcurrentHashMap.computeIfAbsent, so that it is asked
// once for a letter however many want to know; but the map stays small, and the numbers of letters all fall into one of
// its bins, which is locked until the office has answered, so that one thread at a time asks.
//
// Cured, a future is put into the map, and the office is asked outside of it.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int LETTERS = 20_000, PLACES = 128;

    /** Finds the place of a letter. */
    interface Places {
        String place(int letter);
    }

    /** Office knows where letters are. */
    static class Office {
        private final String address;
        private final Map<Integer, String> known = new ConcurrentHashMap<>();
        private final Map<Integer, CompletableFuture<String>> asked = new ConcurrentHashMap<>();

        Office(String address) {
            this.address = address;
        }

        private String ask(int letter) {
            try {
                URL url = new URL("http://" + address + "/letter/" + letter);
                HttpURLConnection connection = (HttpURLConnection) url.openConnection();
                connection.setConnectTimeout(10_000);
                connection.setReadTimeout(10_000);
                try (InputStream in = connection.getInputStream()) {
                    return "place " + (letter + in.readAllBytes().length) % PLACES;
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        /** A place is forgotten when it was told, as letters are under way. */
        String inMap(int letter) {
            try {
                return known.computeIfAbsent(letter, this::ask);
            } finally {
                known.remove(letter);
            }
        }

        String besideMap(int letter) {
            CompletableFuture<String> mine = new CompletableFuture<>();
            CompletableFuture<String> other = asked.putIfAbsent(letter, mine);
            if (other != null) {
                return other.join();
            }
            try {
                mine.complete(ask(letter));
            } catch (UncheckedIOException e) {
                mine.completeExceptionally(e);
            } finally {
                asked.remove(letter);
            }
            return mine.join();
        }
    }

    /** The stamps on a letter, as its number says. */
    static String stamps(int letter) throws NoSuchAlgorithmException {
        byte[] seal = Integer.toString(letter).getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < 600; i++) {
            seal = digest.digest(seal);
        }
        return HexFormat.of().formatHex(seal);
    }

    static void serve(HttpExchange exchange, Places places) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            // The last digits of a number are the district, and there is one.
            int letter = ThreadLocalRandom.current().nextInt(LETTERS) * 1024;
            try {
                text = letter + " " + places.place(letter) + " " + stamps(letter) + "\n";
            } catch (UncheckedIOException | CompletionException | NoSuchAlgorithmException e) {
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
        Office office = new Office(System.getenv("PATIENT_SERVICE"));
        Places places = flags.contains("--cured") ? office::besideMap : office::inMap;
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, places));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
