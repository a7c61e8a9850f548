// orlops tells how the load on the orlop deck of a ship is spread: which cask stands how far from
// the middle, and what that makes together. The casks are kept in a LinkedList, as they are put in
// at either end, and the sum walks through the list by index: for each get(i) LinkedList goes from
// an end of the list to the place, cask by cask. A flight recording is shown.
//
// Cured, the casks are kept in an ArrayList.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int SHIPS = 12, CASKS = 1400, SEALS = 2000;

    /** A cask, and the frame of the ship at which it stands. */
    record Cask(String mark, int kilos, int frame) {}

    /** The deck of a ship, and its casks in the order in which they stand. */
    static class Orlop {
        private final List<Cask> casks;

        Orlop(int ship, List<Cask> empty) {
            Random random = new Random(ship);
            casks = empty;
            for (int i = 0; i < CASKS; i++) {
                String mark = String.format(Locale.ROOT, "%c%04d", 'A' + i % 26, i);
                casks.add(new Cask(mark, 40 + random.nextInt(260), i % 60 - 30));
            }
        }

        /** How much the ship is down by the head, in metre-tons; casks that are near count more. */
        double trim() {
            double sum = 0;
            for (int i = 0; i < casks.size(); i++) {
                Cask cask = casks.get(i);
                sum += cask.kilos() * cask.frame() * 0.6 / (1000 + i);
            }
            return sum;
        }

        /** The heaviest cask that stands at a frame. */
        Cask heaviest(int frame) {
            Cask most = null;
            for (Cask cask : casks) {
                if (cask.frame() == frame && (most == null || cask.kilos() > most.kilos())) {
                    most = cask;
                }
            }
            return most;
        }
    }

    static String sheet(List<Orlop> fleet) throws NoSuchAlgorithmException {
        int ship = ThreadLocalRandom.current().nextInt(SHIPS);
        int frame = ThreadLocalRandom.current().nextInt(-30, 30);
        Orlop orlop = fleet.get(ship);
        Cask cask = orlop.heaviest(frame);
        String text = String.format(Locale.ROOT,
                "ship %d: %.3f mt by the head, %s at frame %d is %d kg",
                ship, orlop.trim(), cask.mark(), frame, cask.kilos());
        return text + "\n" + seal(text) + "\n";
    }

    /** The mate's seal, with which a sheet goes to the harbour office. */
    static String seal(String text) throws NoSuchAlgorithmException {
        byte[] seal = text.getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            seal = digest.digest(seal);
        }
        return HexFormat.of().formatHex(seal);
    }

    static void serve(HttpExchange exchange, List<Orlop> fleet) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = sheet(fleet);
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
        boolean cured = flags.contains("--cured");
        List<Orlop> fleet = new ArrayList<>();
        for (int ship = 0; ship < SHIPS; ship++) {
            fleet.add(new Orlop(ship, cured ? new ArrayList<>() : new LinkedList<>()));
        }
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, fleet));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
