// invoices writes invoices over the JDK's HTTP server. Nobody has given the server an executor, so it calls its
// handlers in the one thread that also accepts and reads: one invoice is written at a time, on one processor.
//
// Cured, it has an executor with two threads for each processor.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    record Line(String text, int hours, BigDecimal rate, int tax) {
        BigDecimal net() {
            return rate.multiply(BigDecimal.valueOf(hours)).setScale(2, RoundingMode.HALF_EVEN);
        }

        BigDecimal taxes() {
            return net().multiply(BigDecimal.valueOf(tax)).divide(BigDecimal.valueOf(100), 2, RoundingMode.HALF_EVEN);
        }
    }

    static final String[] TASKS = {"Hull cleaned", "Mast stepped", "Sail patched", "Engine serviced", "Berth let"};

    static List<Line> lines() {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        List<Line> all = new ArrayList<>();
        for (int i = 0; i < 700; i++) {
            BigDecimal rate = BigDecimal.valueOf(random.nextInt(2500, 9900), 2);
            all.add(new Line(TASKS[random.nextInt(TASKS.length)], random.nextInt(1, 40), rate, i % 4 == 0 ? 7 : 19));
        }
        return all;
    }

    static String invoice(List<Line> lines) {
        StringBuilder page = new StringBuilder("<!doctype html><title>Invoice</title><table>");
        Map<Integer, BigDecimal> taxes = new TreeMap<>();
        BigDecimal sum = BigDecimal.ZERO;
        lines.sort((a, b) -> b.net().compareTo(a.net()));
        for (Line l : lines) {
            sum = sum.add(l.net());
            taxes.merge(l.tax(), l.taxes(), BigDecimal::add);
            page.append("<tr><td>").append(l.text().replace("&", "&amp;").replace("<", "&lt;")).append("<td>")
                    .append(l.hours()).append("<td>").append(l.rate().toPlainString()).append("<td>").append(l.net());
        }
        page.append("<tr><td>Net<td><td><td>").append(sum);
        taxes.forEach((percent, euros) -> page.append("<tr><td>").append(percent).append(" %<td><td><td>").append(euros));
        return page.append("</table>\n").toString();
    }

    static void serve(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = invoice(lines()).getBytes(StandardCharsets.UTF_8);
            byte[] seal = MessageDigest.getInstance("SHA-256").digest(body);
            exchange.getResponseHeaders().set("Content-Type", "text/html; charset=utf-8");
            exchange.getResponseHeaders().set("ETag", "\"" + HexFormat.of().formatHex(seal, 0, 8) + "\"");
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
        HttpServer server = HttpServer.create(new InetSocketAddress(address[0], Integer.parseInt(address[1])), 1024);
        if (flags.contains("--cured")) {
            server.setExecutor(Executors.newFixedThreadPool(2 * Runtime.getRuntime().availableProcessors()));
        }
        server.createContext("/", Main::serve);
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
