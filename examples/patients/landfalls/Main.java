// landfalls lists the sea marks that a ship passes on its way to a landfall, and their lights.
// The way has the names of its marks. What is known of a mark stands in a list, and for each name
// on the way the list is searched with a stream from its beginning: stream().filter().findFirst().
// The list has grown to 1500 marks. A flight recording is shown.
//
// Cured, a HashMap has the marks by their names.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int MARKS = 1500, WAYS = 40, PASSED = 240, SEALS = 4000;

    record Mark(String name, String light, int seconds) {}

    /** The marks of a coast, and the ways that are usual along it. */
    static class Chart {
        private final List<Mark> marks = new ArrayList<>();
        private final Map<String, Mark> byName = new HashMap<>();
        private final List<List<String>> ways = new ArrayList<>();
        private final boolean searches;

        Chart(boolean searches) {
            this.searches = searches;
            String[] lights = {"fixed", "flashing", "occulting", "isophase"};
            for (int i = 0; i < MARKS; i++) {
                Mark mark = new Mark(name(i), lights[i % lights.length], 2 + i % 13);
                marks.add(mark);
                byName.put(mark.name(), mark);
            }
            for (int way = 0; way < WAYS; way++) {
                List<String> names = new ArrayList<>();
                for (int i = 0; i < PASSED; i++) {
                    names.add(name((way * 31 + i * 6) % MARKS));
                }
                ways.add(names);
            }
        }

        private static String name(int i) {
            return "mark " + (1000 + i);
        }

        List<String> way(int number) {
            return ways.get(number);
        }

        Mark mark(String name) {
            if (searches) {
                return marks.stream().filter(mark -> mark.name().equals(name)).findFirst()
                        .orElseThrow();
            }
            return byName.get(name);
        }
    }

    /** The marks of a way, with the pilots' seal. */
    static String pilot(Chart chart) throws NoSuchAlgorithmException {
        int number = ThreadLocalRandom.current().nextInt(WAYS);
        StringBuilder page = new StringBuilder("way ").append(number).append('\n');
        for (String name : chart.way(number)) {
            Mark mark = chart.mark(name);
            page.append(mark.name()).append(": ").append(mark.light()).append(", ");
            page.append(mark.seconds()).append(" s\n");
        }
        return page.append(seal(page.toString())).append('\n').toString();
    }

    static String seal(String text) throws NoSuchAlgorithmException {
        byte[] seal = text.getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            seal = digest.digest(seal);
        }
        return HexFormat.of().formatHex(seal);
    }

    static void serve(HttpExchange exchange, Chart chart) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = pilot(chart);
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
        Chart chart = new Chart(!flags.contains("--cured"));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, chart));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
