// lighters tells which crates are on a lighter, and where it lies. The crates are in PostgreSQL,
// with an index on the number of the lighter, which is a bigint. The service keeps the number as a
// BigDecimal, so its driver sends a numeric, and PostgreSQL has to turn the column into numeric to
// compare: it cannot use the index, and reads the whole table for each request.
//
// Cured, the number is sent as a bigint.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int LIGHTERS = 1000, CRATES = 12, CONNECTIONS = 24, SEALS = 2000, WARM = 400;

    /** A connection to PostgreSQL, which speaks its protocol as far as it is needed here. */
    static class Connection {
        private final DataInputStream in;
        private final DataOutputStream out;

        Connection(URI database) throws IOException {
            Socket socket = new Socket(database.getHost(), database.getPort());
            socket.setTcpNoDelay(true);
            in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            out = new DataOutputStream(socket.getOutputStream());
            String name = database.getPath().substring(1);
            byte[] words = text("user\0" + database.getUserInfo() + "\0database\0" + name + "\0\0");
            send(-1, new byte[] {0, 3, 0, 0}, words); // version 3.0 of the protocol
            answer();
        }

        /** The rows that a statement gives, with a tab between their fields. */
        List<String> query(String statement) throws IOException {
            send('Q', text(statement + "\0"));
            return answer();
        }

        private void send(int type, byte[]... parts) throws IOException {
            ByteArrayOutputStream message = new ByteArrayOutputStream();
            DataOutputStream data = new DataOutputStream(message);
            if (type >= 0) {
                data.writeByte(type);
            }
            data.writeInt(4 + Arrays.stream(parts).mapToInt(part -> part.length).sum());
            for (byte[] part : parts) {
                data.write(part);
            }
            out.write(message.toByteArray());
        }

        private List<String> answer() throws IOException {
            List<String> rows = new ArrayList<>();
            String error = null;
            while (true) {
                int type = in.readByte();
                int length = in.readInt() - 4;
                if (type == 'D') {
                    rows.add(row());
                    continue;
                }
                byte[] rest = in.readNBytes(length);
                if (type == 'E') {
                    error = new String(rest, StandardCharsets.UTF_8).replace('\0', ' ');
                }
                if (type == 'Z' && error == null) { // it is ready for the next query
                    return rows;
                } else if (type == 'Z' || error != null && error.startsWith("SFATAL")) {
                    throw new IOException("PostgreSQL: " + error);
                }
            }
        }

        private String row() throws IOException {
            String[] fields = new String[in.readShort()];
            for (int i = 0; i < fields.length; i++) {
                fields[i] = new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
            }
            return String.join("\t", fields);
        }

        private static byte[] text(String text) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
    }

    /** A lighter that is on its way here, its crates, and a seal for the customs. */
    static String tell(LinkedBlockingDeque<Connection> pool, String type)
            throws IOException, InterruptedException, GeneralSecurityException {
        int lighter = ThreadLocalRandom.current().nextInt(LIGHTERS);
        Connection connection = pool.takeFirst();
        List<String> crates;
        try {
            crates = connection.query("SELECT mark, kilos, berth FROM crates WHERE lighter = "
                    + lighter + "::" + type + " ORDER BY mark");
        } finally {
            pool.addFirst(connection);
        }
        String page = "lighter " + lighter + "\n" + String.join("\n", crates) + "\n";
        MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
        byte[] seal = page.getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < SEALS; i++) {
            seal = sha256.digest(seal);
        }
        return page + HexFormat.of().formatHex(seal) + "\n";
    }

    static void serve(HttpExchange exchange, LinkedBlockingDeque<Connection> pool, String type)
            throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = tell(pool, type);
            } catch (IOException | InterruptedException | GeneralSecurityException e) {
                status = 502;
                text = e + "\n";
            }
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    static LinkedBlockingDeque<Connection> open(URI database) throws IOException {
        LinkedBlockingDeque<Connection> pool = new LinkedBlockingDeque<>();
        for (int i = 0; i < CONNECTIONS; i++) {
            pool.add(new Connection(database));
        }
        pool.getFirst().query("DROP TABLE IF EXISTS crates;"
                + " CREATE TABLE crates (lighter bigint, mark text, kilos int, berth text);"
                + " INSERT INTO crates SELECT i % " + LIGHTERS + ", 'crate ' || i, 40 + i % 800,"
                + " 'berth ' || i % 30 FROM generate_series(1, " + LIGHTERS * CRATES + ") AS i;"
                + " CREATE INDEX ON crates (lighter)");
        pool.getFirst().query("VACUUM ANALYZE crates");
        return pool;
    }

    public static void main(String[] words) throws Exception {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        String type = flags.contains("--cured") ? "bigint" : "numeric";
        LinkedBlockingDeque<Connection> pool = open(URI.create(System.getenv("PATIENT_DATABASE")));
        for (int i = 0; i < WARM; i++) { // so that the JVM has compiled this before clients come
            tell(pool, type);
        }
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(48));
        server.createContext("/", exchange -> serve(exchange, pool, type));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
