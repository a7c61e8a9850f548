// couriers says where a letter is. The office is asked within ConcurrentHashMap.computeIfAbsent, so that it is asked
// once for a letter however many want to know; but the hash of a letter is its district, of which there are three, so all
// fall into three bins of the map, each of which is locked until the office has answered, so that three threads ask.
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
    static final int LETTERS = 20_000, PLACES = 128, DISTRICTS = 3;

    /** Letter is told from others by its district and its number. */
    record Letter(int district, int number) {
        @Override
        public int hashCode() {
            return district;
        }
    }

    /** Finds the place of a letter. */
    interface Places {
        String place(Letter letter);
    }

    /** Office knows where letters are. */
    static class Office {
        private final String address;
        private final Map<Letter, String> known = new ConcurrentHashMap<>();
        private final Map<Letter, CompletableFuture<String>> asked = new ConcurrentHashMap<>();

        Office(String address) {
            this.address = address;
        }

        private String ask(Letter letter) {
            try {
                URL url = new URL("http://" + address + "/letter/" + letter.number());
                HttpURLConnection connection = (HttpURLConnection) url.openConnection();
                connection.setConnectTimeout(10_000);
                connection.setReadTimeout(10_000);
                try (InputStream in = connection.getInputStream()) {
                    return "place " + (letter.number() + in.readAllBytes().length) % PLACES;
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        /** A place is forgotten when it was told, as letters are under way. */
        String inMap(Letter letter) {
            try {
                return known.computeIfAbsent(letter, this::ask);
            } finally {
                known.remove(letter);
            }
        }

        String besideMap(Letter letter) {
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
    static String stamps(Letter letter) throws NoSuchAlgorithmException {
        byte[] seal = letter.toString().getBytes(StandardCharsets.UTF_8);
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
            ThreadLocalRandom random = ThreadLocalRandom.current();
            Letter letter = new Letter(random.nextInt(DISTRICTS), random.nextInt(LETTERS));
            try {
                text = letter.number() + " " + places.place(letter) + " " + stamps(letter) + "\n";
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
