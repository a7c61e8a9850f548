// javapool gives the JDK's HTTP server a pool of four threads, and each request waits 10 ms for the
// warehouse: four requests are inside, and the others stand in the pool's queue.
//
// Cured, the pool has 64 threads.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Executors;

public class Main {
    static final int WORK = 600; // rounds of honest work, each of half a microsecond

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        // Connections are kept, and answers are not held back for the client's acknowledgement.
        System.setProperty("http.maxConnections", "256");
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(flags.contains("--cured") ? 64 : 4));
        URL warehouse = new URL("http://" + System.getenv("PATIENT_SERVICE") + "/");
        server.createContext("/", exchange -> serve(exchange, warehouse));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }

    static void serve(HttpExchange exchange, URL warehouse) throws IOException {
        try (exchange) {
            byte[] text = ((HttpURLConnection) warehouse.openConnection()).getInputStream().readAllBytes();
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            for (int i = 0; i < WORK; i++) {
                text = hash.digest(text);
            }
            byte[] body = (Arrays.hashCode(text) + "\n").getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IOException(e);
        }
    }
}
