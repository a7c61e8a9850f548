// javapattern proposes names to somebody who signs up. Which names are reserved is a regular expression in
// text, and String.matches compiles it once more for every name that is considered.
//
// Cured, it is compiled when the service starts.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class Main {
    static final int PROPOSALS = 10;
    static final String[] STEMS = "harbour tide keel anchor sail rudder mast bosun galley hatch".split(" ");

    /** What nobody may be called: roles, rude words, and names of products, with a number or without. */
    static final String RESERVED = IntStream.range(0, 160)
            .mapToObj(i -> STEMS[i % 10] + List.of("admin", "root", "help", "sales").get(i % 4) + (char) ('a' + i % 23))
            .collect(Collectors.joining("|", "(?i)(admin|root|support|postmaster|", ")[-_.]?\\d{0,4}"));

    record Proposal(String name, int length, String key) {}

    static Predicate<String> reserved(boolean cured) {
        if (cured) {
            Pattern pattern = Pattern.compile(RESERVED);
            return name -> pattern.matcher(name).matches();
        }
        return name -> name.matches(RESERVED);
    }

    /** Names that are free, the shortest first. */
    static List<Proposal> propose(Predicate<String> reserved) {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        TreeMap<String, Proposal> found = new TreeMap<>(Comparator.comparingInt(String::length).thenComparing(n -> n));
        while (found.size() < PROPOSALS) {
            String name = STEMS[random.nextInt(STEMS.length)] + STEMS[random.nextInt(STEMS.length)] + random.nextInt(1000);
            if (!reserved.test(name)) {
                found.put(name, new Proposal(name, name.length(), key(name)));
            }
        }
        return List.copyOf(found.values());
    }

    /** The key of a name is taken with it, so that nobody makes up a name of his own. */
    static String key(String name) {
        try {
            byte[] key = name.getBytes(StandardCharsets.UTF_8);
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            for (int i = 0; i < 120; i++) {
                key = hash.digest(key);
            }
            return HexFormat.of().formatHex(key, 0, 12);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    static String page(Predicate<String> reserved) {
        return propose(reserved).stream()
                .map(p -> "{\"name\":\"" + p.name() + "\",\"length\":" + p.length() + ",\"key\":\"" + p.key() + "\"}")
                .collect(Collectors.joining(",", "{\"proposals\":[", "]}\n"));
    }

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        Predicate<String> reserved = reserved(flags.contains("--cured"));
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(32));
        server.createContext("/", exchange -> serve(exchange, reserved));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }

    static void serve(HttpExchange exchange, Predicate<String> reserved) throws IOException {
        try (exchange) {
            byte[] body = page(reserved).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        }
    }
}
