// windlasses lists the windlasses of a shipyard that are free on a day: all that it has, without
// those that are booked, which come as a list, in the order in which they were booked. They are taken
// out with removeAll, for which ArrayList goes through the whole list of what is booked for each
// windlass. A flight recording is shown.
//
// Cured, what is booked is put into a HashSet first.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class Main {
    static final int WINDLASSES = 640, BOOKED = 500, DAYS = 60, SEALS = 1400;

    /** A windlass is told from others by its number. */
    record Windlass(String number, int tons, String slip) {}

    /** The shipyard has its windlasses, and for each day the numbers of those that are booked. */
    static class Shipyard {
        private final List<Windlass> all = IntStream.range(0, WINDLASSES)
                .mapToObj(i -> new Windlass(number(i), 5 + i * 37 % 90, "slip " + i % 24))
                .collect(Collectors.toList());
        private final List<List<String>> booked = IntStream.range(0, DAYS)
                .mapToObj(Shipyard::bookings).collect(Collectors.toList());

        private static String number(int i) {
            return String.format("CAP-%06d", 100_000 + 7 * i);
        }

        private static List<String> bookings(int day) {
            List<String> numbers = IntStream.range(0, WINDLASSES).mapToObj(Shipyard::number)
                    .collect(Collectors.toList());
            Collections.shuffle(numbers, new Random(day));
            return new ArrayList<>(numbers.subList(0, BOOKED));
        }

        /** The windlasses that are free on a day, the strongest first. */
        List<Windlass> free(int day, boolean inSet) {
            List<String> left = new ArrayList<>(WINDLASSES);
            for (Windlass windlass : all) {
                left.add(windlass.number());
            }
            Collection<String> taken = booked.get(day);
            left.removeAll(inSet ? new HashSet<>(taken) : taken);
            // Both are in the order of their numbers.
            List<Windlass> free = new ArrayList<>(left.size());
            int at = 0;
            for (Windlass windlass : all) {
                if (at < left.size() && windlass.number().equals(left.get(at))) {
                    free.add(windlass);
                    at++;
                }
            }
            free.sort(Comparator.comparingInt(Windlass::tons).reversed());
            return free;
        }
    }

    static String page(Shipyard shipyard, boolean inSet) throws NoSuchAlgorithmException {
        int day = ThreadLocalRandom.current().nextInt(DAYS);
        StringBuilder page = new StringBuilder("day ").append(day).append('\n');
        for (Windlass windlass : shipyard.free(day, inSet)) {
            page.append(windlass.number()).append(": ").append(windlass.tons()).append(" t, ");
            page.append(windlass.slip()).append('\n');
        }
        return page.append(seal(page.toString())).append('\n').toString();
    }

    /** The shipyard's seal, which makes the list an offer. */
    static String seal(String text) throws NoSuchAlgorithmException {
        byte[] seal = text.getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            seal = digest.digest(seal);
        }
        return HexFormat.of().formatHex(seal);
    }

    static void serve(HttpExchange exchange, Shipyard shipyard, boolean inSet) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = page(shipyard, inSet);
            } catch (NoSuchAlgorithmException e) {
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
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Shipyard shipyard = new Shipyard();
        boolean inSet = flags.contains("--cured");
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, shipyard, inSet));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
