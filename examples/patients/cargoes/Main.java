// cargoes plans where containers stand on a ship. Its level of logging was set to FINE, to look for
// an error, and never set back, so that a line is formatted and written for each bay in which a
// container cannot stand. A flight recording is shown.
//
// Cured, the level is INFO.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.BiPredicate;
import java.util.logging.*;

public class Main {
    static final int CONTAINERS = 400, PLANNED = 12, BAYS = 900;
    static final Logger LOG = Logger.getLogger("cargoes.plan");

    record Container(String id, int tonnes, boolean cold, boolean dangerous) {}

    record Bay(int number, int most, boolean plug, boolean onDeck) {
        double far() {
            return Math.hypot(number % 20 - 10, number / 20 - 22);
        }
    }

    record Rule(String name, BiPredicate<Container, Bay> allows) {}

    static final List<Rule> RULES = List.of(
            new Rule("weight", (c, b) -> c.tonnes() <= b.most()),
            new Rule("plug", (c, b) -> !c.cold() || b.plug()),
            new Rule("danger", (c, b) -> !c.dangerous() || b.onDeck()));

    /** Handler that writes lines to a file. Each thread formats its own. */
    static class Journal extends Handler {
        private final OutputStream out;

        Journal(OutputStream out) {
            this.out = out;
            setFormatter(new SimpleFormatter());
        }

        @Override
        public void publish(LogRecord line) {
            byte[] text = getFormatter().format(line).getBytes(StandardCharsets.UTF_8);
            try {
                out.write(text);
            } catch (IOException e) {
                reportError(null, e, ErrorManager.WRITE_FAILURE);
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }

    /** The ship, and what has to go on board. */
    static class Ship {
        private final List<Bay> bays = new ArrayList<>();
        private final List<Container> containers = new ArrayList<>();

        Ship() {
            for (int i = 0; i < BAYS; i++) {
                bays.add(new Bay(i, 12 + i * 7 % 25, i % 4 == 0, i % 3 == 0));
            }
            for (int i = 0; i < CONTAINERS; i++) {
                String id = "HRBU" + (700000 + i * 37);
                containers.add(new Container(id, 4 + i * 11 % 26, i % 9 == 0, i % 13 == 0));
            }
        }

        private boolean fits(Container container, Bay bay) {
            for (Rule rule : RULES) {
                if (!rule.allows().test(container, bay)) {
                    LOG.log(Level.FINE, "{0} cannot stand in bay {1}: {2}",
                            new Object[] {container.id(), bay.number(), rule.name()});
                    return false;
                }
            }
            return true;
        }

        String plan() throws GeneralSecurityException {
            int first = ThreadLocalRandom.current().nextInt(CONTAINERS - PLANNED);
            List<Bay> free = new ArrayList<>(bays);
            int turn = ThreadLocalRandom.current().nextInt(BAYS);
            free.sort(Comparator.comparingDouble((Bay b) -> b.far() + (b.number() + turn) % 30)
                    .thenComparingInt(Bay::number));
            StringBuilder plan = new StringBuilder();
            for (Container container : containers.subList(first, first + PLANNED)) {
                Bay bay = free.stream().filter(b -> fits(container, b)).findFirst().orElseThrow();
                free.remove(bay);
                plan.append(container.id()).append(" in bay ").append(bay.number()).append('\n');
            }
            byte[] seal = MessageDigest.getInstance("SHA-256")
                    .digest(plan.toString().getBytes(StandardCharsets.UTF_8));
            return plan.append(HexFormat.of().formatHex(seal)).append('\n').toString();
        }
    }

    static void serve(HttpExchange exchange, Ship ship) throws IOException {
        try (exchange) {
            byte[] body = ship.plan().getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] words) throws IOException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        LOG.setUseParentHandlers(false);
        LOG.addHandler(new Journal(Files.newOutputStream(Path.of("/dev/null"))));
        LOG.setLevel(flags.contains("--cured") ? Level.INFO : Level.FINE);
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Ship ship = new Ship();
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, ship));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
