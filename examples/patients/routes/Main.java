// routes finds the shortest way between two harbours of a chart. It is healthy: most of its processor time is
// the search, which is what it is for, in one function. A flight recording is shown.
//
// "Cured", the search ends where the harbour is reached, in place of going on to all others.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class Main {
    /** The chart: a grid of places, with what it takes to go from each to its neighbours. */
    static class Chart {
        static final int WIDTH = 320, PLACES = WIDTH * WIDTH, FAR = Integer.MAX_VALUE / 2;
        static final int[] STEPS = {1, -1, WIDTH, -WIDTH};

        /** What a thread searches with, made once so that a search makes no garbage. */
        static class Desk {
            final int[] distance = new int[PLACES], before = new int[PLACES];
            final int[] next = new int[PLACES * 4], place = new int[PLACES * 4], bucket = new int[64];
        }

        static final ThreadLocal<Desk> DESKS = ThreadLocal.withInitial(Desk::new);

        private final int[] depth = new Random(3).ints(PLACES, 1, 60).toArray();

        /** The places on the way. It has the places that were seen in buckets by their distance. */
        int[] way(int from, int to, boolean all) {
            Desk desk = DESKS.get();
            int[] distance = desk.distance, before = desk.before, next = desk.next, place = desk.place, bucket = desk.bucket;
            Arrays.fill(distance, FAR);
            Arrays.fill(bucket, -1);
            distance[from] = 0;
            before[from] = from;
            bucket[0] = 0;
            place[0] = from;
            next[0] = -1;
            int used = 1, waiting = 1;
            for (int d = 0; waiting > 0; d++) {
                int entry = bucket[d & 63];
                bucket[d & 63] = -1;
                for (; entry >= 0; entry = next[entry]) {
                    waiting--;
                    int here = place[entry];
                    if (distance[here] != d) {
                        continue;
                    }
                    if (here == to && !all) {
                        return back(before, from, to);
                    }
                    for (int step : STEPS) {
                        int there = here + step;
                        if (there < 0 || there >= PLACES || step * step == 1 && there / WIDTH != here / WIDTH) {
                            continue;
                        }
                        int far = d + depth[there];
                        if (far < distance[there]) {
                            distance[there] = far;
                            before[there] = here;
                            place[used] = there;
                            next[used] = bucket[far & 63];
                            bucket[far & 63] = used++;
                            waiting++;
                        }
                    }
                }
            }
            return back(before, from, to);
        }

        private static int[] back(int[] before, int from, int to) {
            int length = 1;
            for (int p = to; p != from; p = before[p]) {
                length++;
            }
            int[] way = new int[length];
            for (int p = to; length > 0; p = before[p]) {
                way[--length] = p;
            }
            return way;
        }
    }

    static String page(Chart chart, boolean all) {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        int from = random.nextInt(Chart.PLACES);
        // Most ask for a harbour that is not far.
        int x = Math.min(from % Chart.WIDTH + random.nextInt(170), Chart.WIDTH - 1);
        int y = Math.min(from / Chart.WIDTH + random.nextInt(170), Chart.WIDTH - 1);
        return IntStream.of(chart.way(from, y * Chart.WIDTH + x, all))
                .mapToObj(p -> "[" + p % Chart.WIDTH + "," + p / Chart.WIDTH + "]")
                .collect(Collectors.joining(",", "{\"way\":[", "]}\n"));
    }

    static void serve(HttpExchange exchange, Chart chart, boolean all) throws IOException {
        try (exchange) {
            byte[] body = page(chart, all).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, body.length);
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
        Chart chart = new Chart();
        boolean all = !flags.contains("--cured");
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, chart, all));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
