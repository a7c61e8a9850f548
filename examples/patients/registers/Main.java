// registers shows a page of a register of ships. The rows of its table are copied into those that are shown by the names
// of their fields, for which the methods of both classes are looked up again for each field of each row. A flight
// recording is shown.
//
// Cured, the copy is written by hand.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;

public class Main {
    static final int SHIPS = 4000, PAGE = 200;

    /** Row of the table. */
    public static class Row {
        private final int number, built, tonnes;
        private final String name, port, owner;

        Row(int n) {
            number = 700_000 + n * 7;
            built = 1950 + n * 13 % 70;
            tonnes = 400 + n * 97 % 90_000;
            name = "Star of the Sea " + n;
            port = "Port no. " + n % 60;
            owner = "Line & Sons " + n % 300;
        }

        public int getNumber() { return number; }
        public int getBuilt() { return built; }
        public int getTonnes() { return tonnes; }
        public String getName() { return name; }
        public String getPort() { return port; }
        public String getOwner() { return owner; }
    }

    /** Shown is what is shown of a row. */
    public static class Shown {
        private int number, built, tonnes;
        private String name, port, owner;

        public void setNumber(int number) { this.number = number; }
        public void setBuilt(int built) { this.built = built; }
        public void setTonnes(int tonnes) { this.tonnes = tonnes; }
        public void setName(String name) { this.name = name; }
        public void setPort(String port) { this.port = port; }
        public void setOwner(String owner) { this.owner = owner; }

        String line() {
            String text = String.join(" | ", name, port, owner);
            return number + " | " + text + " | " + built + " | " + tonnes + "\n";
        }
    }

    static Method find(Class<?> type, String name) throws NoSuchMethodException {
        for (Method method : type.getMethods()) {
            if (method.getName().equalsIgnoreCase(name)) {
                return method;
            }
        }
        throw new NoSuchMethodException(type + " has no " + name);
    }

    static Shown byName(Row row) {
        Shown shown = new Shown();
        try {
            for (Field field : Shown.class.getDeclaredFields()) {
                Object value = find(row.getClass(), "get" + field.getName()).invoke(row);
                find(shown.getClass(), "set" + field.getName()).invoke(shown, value);
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        return shown;
    }

    static Shown byHand(Row row) {
        Shown shown = new Shown();
        shown.setNumber(row.getNumber());
        shown.setBuilt(row.getBuilt());
        shown.setTonnes(row.getTonnes());
        shown.setName(row.getName());
        shown.setPort(row.getPort());
        shown.setOwner(row.getOwner());
        return shown;
    }

    static String page(List<Row> rows, Function<Row, Shown> copy) throws Exception {
        StringBuilder page = new StringBuilder();
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (Row row : rows) {
            String line = copy.apply(row).line();
            digest.update(line.getBytes(StandardCharsets.UTF_8));
            page.append(line);
        }
        return page.append(HexFormat.of().formatHex(digest.digest())).append('\n').toString();
    }

    static void serve(HttpExchange exchange, List<Row> table, Function<Row, Shown> copy) throws IOException {
        try (exchange) {
            int first = ThreadLocalRandom.current().nextInt(SHIPS - PAGE);
            byte[] body = page(table.subList(first, first + PAGE), copy).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (Exception e) {
            throw new IOException(e);
        }
    }

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        List<Row> table = new ArrayList<>();
        for (int n = 0; n < SHIPS; n++) {
            table.add(new Row(n));
        }
        Function<Row, Shown> copy = flags.contains("--cured") ? Main::byHand : Main::byName;
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, table, copy));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
