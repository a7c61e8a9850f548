// fairways lists the ferries that leave from a pier on one day, with the fares for a passenger and
// a car. NumberFormat must not be shared by threads, so whoever wrote the service asks for a new
// one for each fare that is written: the locale's providers, symbols and patterns are looked up,
// and a pattern is read, 320 times for a page. A flight recording is shown.
//
// Cured, each thread has one NumberFormat, and keeps it.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.text.NumberFormat;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Supplier;

public class Main {
    static final int SAILINGS = 160, SEALS = 300;
    static final String[] PIERS = {"North Pier", "Old Harbour", "Castle Bay", "Fish Market"};

    /** Sailing leaves at a minute of the day, and its fares are in cents. */
    record Sailing(String to, int minute, int passenger, int car) {}

    static NumberFormat euros() {
        return NumberFormat.getCurrencyInstance(Locale.GERMANY);
    }

    static final ThreadLocal<NumberFormat> KEPT = ThreadLocal.withInitial(Main::euros);

    /** The sailings of a day, in the order in which they leave. */
    static Sailing[] sailings() {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        Sailing[] all = new Sailing[SAILINGS];
        for (int i = 0; i < all.length; i++) {
            all[i] = new Sailing(PIERS[random.nextInt(PIERS.length)], random.nextInt(24 * 60),
                    random.nextInt(500, 9_000), random.nextInt(3_000, 200_000));
        }
        Arrays.sort(all, (a, b) -> Integer.compare(a.minute(), b.minute()));
        return all;
    }

    /** The page, with a seal by which an agent can tell that it is ours. */
    static String page(Supplier<NumberFormat> formats) throws NoSuchAlgorithmException {
        StringBuilder page = new StringBuilder("<!doctype html><title>Sailings</title><table>\n");
        for (Sailing s : sailings()) {
            page.append("<tr><td>").append(s.to());
            page.append("<td>").append(s.minute() / 60).append('.').append(s.minute() % 60);
            page.append("<td>").append(formats.get().format(s.passenger() / 100.0));
            page.append("<td>").append(formats.get().format(s.car() / 100.0)).append('\n');
        }
        byte[] seal = page.toString().getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            seal = digest.digest(seal);
        }
        page.append("</table><p>").append(HexFormat.of().formatHex(seal)).append('\n');
        return page.toString();
    }

    static void serve(HttpExchange exchange, Supplier<NumberFormat> formats) throws IOException {
        try (exchange) {
            byte[] body = page(formats).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/html; charset=utf-8");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (NoSuchAlgorithmException e) {
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
        Supplier<NumberFormat> formats = flags.contains("--cured") ? KEPT::get : Main::euros;
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, formats));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
