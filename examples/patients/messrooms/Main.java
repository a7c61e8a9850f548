// messrooms writes the menu of a ship's galley: a page that is put together from eighty small
// templates, one for each dish. The setting with which its developers see a change at once is still
// on, so each template is opened and read again for each page.
//
// Cured, that setting is off, and a template is read once.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int DISHES = 80, SEALS = 2000;
    static final String[] KINDS = {"Soup", "Stew", "Pie", "Curry", "Salad"};

    /** Templates are in a folder, and their names are those of its files. */
    static class Templates {
        private final Path folder;
        private final boolean reload;
        private final Map<String, String> known = new ConcurrentHashMap<>();

        Templates(Path folder, boolean reload) {
            this.folder = folder;
            this.reload = reload;
        }

        String get(String name) {
            return reload ? read(name) : known.computeIfAbsent(name, this::read);
        }

        private String read(String name) {
            try {
                return Files.readString(folder.resolve(name));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    static String name(int dish) {
        return "dish-" + dish + ".html";
    }

    /** Writes the templates, as they come with a release, and has them removed in the end. */
    static Path release() throws IOException {
        Path top = Files.createTempDirectory("patient-messrooms-");
        Path folder = Files.createDirectory(top.resolve("dishes"));
        for (int i = 0; i < DISHES; i++) {
            String text = "<li class=\"dish\"><b>" + KINDS[i % KINDS.length] + " no. " + i
                    + "</b>, _ portions, _ euros</li>\n";
            Files.writeString(folder.resolve(name(i)), text);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            for (int i = 0; i < DISHES; i++) {
                folder.resolve(name(i)).toFile().delete();
            }
            folder.toFile().delete();
            top.toFile().delete();
            Runtime.getRuntime().halt(0);
        }));
        return folder;
    }

    /** The menu of a day, with a seal for the ship's copy. */
    static String menu(Templates templates) throws NoSuchAlgorithmException {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        StringBuilder page = new StringBuilder("<!doctype html><title>Menu</title><ul>\n");
        for (int i = 0; i < DISHES; i++) {
            String portions = Integer.toString(random.nextInt(5, 90));
            String price = random.nextInt(3, 25) + ".50";
            String[] texts = templates.get(name(i)).split("_");
            page.append(texts[0]).append(portions).append(texts[1]).append(price).append(texts[2]);
        }
        byte[] seal = page.toString().getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            seal = digest.digest(seal);
        }
        page.append("</ul><p>").append(HexFormat.of().formatHex(seal)).append('\n');
        return page.toString();
    }

    static void serve(HttpExchange exchange, Templates templates) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = menu(templates);
            } catch (UncheckedIOException | NoSuchAlgorithmException e) {
                status = 500;
                text = e + "\n";
            }
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/html; charset=utf-8");
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
        Templates templates = new Templates(release(), !flags.contains("--cured"));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, templates));
        server.start();
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
