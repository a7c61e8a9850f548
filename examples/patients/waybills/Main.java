// waybills seals the waybills of a port: each is written into a direct buffer, which zlib
// compresses and sums up without a copy. A buffer is allocated for each request, and freed when
// the collector finds that nobody has it. But MaxDirectMemorySize is small, and the heap is not:
// long before the heap is full there is no direct memory left, so the JDK calls System.gc(), which
// stops the service to go through all that is kept. Nothing is shown.
//
// Cured, each thread keeps its buffer.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Supplier;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

public class Main {
    static final int CONSIGNEES = 150_000, LINES = 400, ROOM = 128 << 10;
    static final String[] GOODS = {"timber", "coffee", "steel", "salt", "cotton", "rubber"};

    /** Register knows who gets goods. */
    static class Register {
        private final Map<Integer, String> consignees = new HashMap<>();

        Register() {
            for (int i = 0; i < CONSIGNEES; i++) {
                consignees.put(i, "Consignee " + i + ", Quay " + i % 90);
            }
        }

        /** Writes a waybill with all its lines. */
        void write(ByteBuffer waybill, int number) {
            ThreadLocalRandom random = ThreadLocalRandom.current();
            StringBuilder line = new StringBuilder();
            for (int i = 0; i < LINES; i++) {
                line.setLength(0);
                line.append(number).append('/').append(i).append(' ')
                        .append(GOODS[random.nextInt(GOODS.length)]).append(' ')
                        .append(random.nextInt(50_000)).append(" kg for ")
                        .append(consignees.get(random.nextInt(CONSIGNEES))).append('\n');
                waybill.put(line.toString().getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    /** Press compresses waybills, and keeps for each of its threads what zlib works with. */
    static class Press {
        private final ThreadLocal<Deflater> deflaters = ThreadLocal.withInitial(Deflater::new);
        private final Register register = new Register();
        private final Supplier<ByteBuffer> buffers;

        Press(Supplier<ByteBuffer> buffers) {
            this.buffers = buffers;
        }

        String seal(int number) {
            ByteBuffer room = buffers.get().clear();
            ByteBuffer waybill = room.slice(0, ROOM / 2);
            ByteBuffer pressed = room.slice(ROOM / 2, ROOM / 2);
            register.write(waybill, number);
            Deflater deflater = deflaters.get();
            deflater.reset();
            deflater.setInput(waybill.flip());
            deflater.finish();
            deflater.deflate(pressed);
            CRC32 sum = new CRC32();
            sum.update(pressed.flip());
            return number + " " + waybill.limit() + " " + sum.getValue() + "\n";
        }
    }

    static void serve(HttpExchange exchange, Press press) throws IOException {
        try (exchange) {
            int number = ThreadLocalRandom.current().nextInt(1_000_000);
            byte[] body = press.seal(number).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    static ByteBuffer allocate() {
        return ByteBuffer.allocateDirect(ROOM);
    }

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        ThreadLocal<ByteBuffer> kept = ThreadLocal.withInitial(Main::allocate);
        Press press = new Press(flags.contains("--cured") ? kept::get : Main::allocate);
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, press));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
