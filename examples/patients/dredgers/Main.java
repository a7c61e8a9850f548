// dredgers tells where a channel has to be dredged, for which it asks an office how high the tide is. It is a control:
// most of its processor time is the search through soundings, and there are threads and connections enough.
//
// Cured, it is the same.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

public class Main {
    static final int WIDE = 90, LONG = 400, SECTION = 60, SPOTS = 8;

    /** Channel is known by its soundings, in decimetres below the chart's datum. */
    static class Channel {
        private final int[][] soundings = new int[LONG][WIDE];

        Channel() {
            for (int along = 0; along < LONG; along++) {
                for (int across = 0; across < WIDE; across++) {
                    int slope = Math.abs(across - WIDE / 2) / 3;
                    soundings[along][across] = 130 - slope + (along * 31 + across * 17) % 23;
                }
            }
        }

        /** The least depth around a spot. */
        private int least(int along, int across) {
            int least = Integer.MAX_VALUE;
            for (int i = Math.max(0, along - 2); i <= Math.min(LONG - 1, along + 2); i++) {
                for (int j = Math.max(0, across - 2); j <= Math.min(WIDE - 1, across + 2); j++) {
                    least = Math.min(least, soundings[i][j]);
                }
            }
            return least;
        }

        /** How much has to go at each step along a section, and where it is shallowest. */
        String plan(int first, int tide) {
            StringBuilder plan = new StringBuilder();
            long all = 0;
            for (int along = first; along < first + SECTION; along++) {
                int shallowest = Integer.MAX_VALUE, where = 0, sum = 0;
                for (int across = 0; across < WIDE; across++) {
                    int depth = least(along, across) + tide;
                    sum += Math.max(0, 128 - depth);
                    if (depth < shallowest) {
                        shallowest = depth;
                        where = across;
                    }
                }
                all += sum;
                if (along % SPOTS == 0) {
                    plan.append(along).append(' ').append(where).append(' ').append(shallowest).append(' ');
                    plan.append(sum).append('\n');
                }
            }
            return plan.append(all).append('\n').toString();
        }
    }

    /** How high the tide is, in decimetres. The JDK keeps the connections. */
    static int tide(String office) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL("http://" + office + "/tide").openConnection();
        connection.setConnectTimeout(10_000);
        connection.setReadTimeout(10_000);
        try (InputStream in = connection.getInputStream()) {
            return in.readAllBytes().length % 40;
        }
    }

    static void serve(HttpExchange exchange, Channel channel, String office) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                int tide = tide(office);
                text = channel.plan(ThreadLocalRandom.current().nextInt(LONG - SECTION), tide);
            } catch (IOException e) {
                status = 502;
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
        // Connections are kept, and answers are not held back for the client's acknowledgement.
        System.setProperty("http.maxConnections", "1024");
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        String office = System.getenv("PATIENT_SERVICE");
        Channel channel = new Channel();
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(new ThreadPoolExecutor(16, 1024, 60, TimeUnit.SECONDS, new SynchronousQueue<>()));
        server.createContext("/", exchange -> serve(exchange, channel, office));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
