// javaheap remembers so much that four fifths of its heap are always in use: what requests allocate
// fills the rest at once, and the collector goes over all that is remembered again and again.
//
// Cured, it remembers as much as fits into a tenth of the heap.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int ENTRY = 112; // bytes of the heap that an entry takes, about
    static final int ORDERS = 2500; // that a request puts together, and forgets
    static final Map<Integer, int[]> seen = new HashMap<>();

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        double share = flags.contains("--cured") ? .1 : .8;
        long entries = (long) (Runtime.getRuntime().maxMemory() * share / ENTRY);
        for (int i = 0; i < entries; i++) {
            seen.put(i, new int[6]);
        }
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(32));
        server.createContext("/", Main::serve);
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }

    static void serve(HttpExchange exchange) throws IOException {
        try (exchange) {
            List<int[]> orders = new ArrayList<>();
            for (int i = 0; i < ORDERS; i++) {
                orders.add(new int[] {i, ThreadLocalRandom.current().nextInt(), seen.get(i).length});
            }
            int sum = 0;
            for (int[] order : orders) {
                sum = 31 * sum + order[0] ^ order[1] + order[2];
            }
            byte[] body = (sum + "\n").getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        }
    }
}
