// lifeboats tells which lifeboats lie at a station, and how many people each takes. They are in
// PostgreSQL, and the service has a pool of connections. Its maxIdle is 0, which somebody took for
// "no limit", but means that none is kept: a connection is closed when it is given back, so each
// request begins with a new one, for which PostgreSQL starts a process. Nothing is shown.
//
// Cured, maxIdle is as large as the pool.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

public class Main {
    static final int STATIONS = 1000, BOATS = 8, THREADS = 32, SEALS = 8500, WARM = 200;

    /** A connection to PostgreSQL, which speaks its protocol as far as it is needed here. */
    static class Connection {
        private final Socket socket;
        private final DataInputStream in;

        Connection(URI database) throws IOException {
            socket = new Socket(database.getHost(), database.getPort());
            socket.setTcpNoDelay(true);
            in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            String name = database.getPath().substring(1);
            String words = "user\0" + database.getUserInfo() + "\0database\0" + name + "\0\0";
            send("", "\0\3\0\0" + words); // version 3.0 of the protocol
            answer();
        }

        /** The rows that a statement gives, as text. */
        List<String> query(String statement) throws IOException {
            send("Q", statement + "\0");
            return answer();
        }

        void close() throws IOException {
            send("X", ""); // else PostgreSQL would complain in its log
            socket.close();
        }

        private void send(String type, String text) throws IOException {
            ByteBuffer message = ByteBuffer.allocate(type.length() + 4 + text.length());
            message.put(type.getBytes(StandardCharsets.US_ASCII)).putInt(4 + text.length());
            message.put(text.getBytes(StandardCharsets.US_ASCII));
            socket.getOutputStream().write(message.array());
        }

        private List<String> answer() throws IOException {
            List<String> rows = new ArrayList<>();
            while (true) {
                int type = in.readByte();
                byte[] rest = in.readNBytes(in.readInt() - 4);
                if (type == 'D') { // a row of one field, after their number and its length
                    rows.add(new String(rest, 6, rest.length - 6, StandardCharsets.UTF_8));
                } else if (type == 'E') {
                    throw new IOException("PostgreSQL: " + new String(rest).replace('\0', ' '));
                } else if (type == 'Z') { // it is ready for the next query
                    return rows;
                }
            }
        }
    }

    /** A pool that opens a connection when none is idle, so there are no more than threads. */
    static class Pool {
        private final URI database;
        private final int maxIdle;
        private final Deque<Connection> idle = new ArrayDeque<>();

        Pool(URI database, int maxIdle) {
            this.database = database;
            this.maxIdle = maxIdle;
        }

        List<String> query(String statement) throws IOException {
            Connection connection = take();
            List<String> rows = connection.query(statement); // a broken one is not given back
            giveBack(connection);
            return rows;
        }

        private Connection take() throws IOException {
            synchronized (idle) {
                if (!idle.isEmpty()) {
                    return idle.pop();
                }
            }
            return new Connection(database);
        }

        private void giveBack(Connection connection) throws IOException {
            synchronized (idle) {
                if (idle.size() < maxIdle) {
                    idle.push(connection);
                    return;
                }
            }
            connection.close();
        }
    }

    /** A station, its lifeboats, and a seal for the coastguard. */
    static String tell(Pool pool) throws IOException, GeneralSecurityException {
        int station = ThreadLocalRandom.current().nextInt(STATIONS);
        List<String> boats = pool.query("SELECT name || ', ' || people FROM lifeboats"
                + " WHERE station = " + station + " ORDER BY name");
        String page = "station " + station + "\n" + String.join("\n", boats) + "\n";
        MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
        byte[] seal = page.getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < SEALS; i++) {
            seal = sha256.digest(seal);
        }
        return page + HexFormat.of().formatHex(seal) + "\n";
    }

    static void serve(HttpExchange exchange, Pool pool) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = tell(pool);
            } catch (IOException | GeneralSecurityException e) {
                status = 502;
                text = e + "\n";
            }
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    static void fill(Pool pool) throws IOException {
        pool.query("DROP TABLE IF EXISTS lifeboats;"
                + " CREATE TABLE lifeboats (station int, name text, people int);"
                + " INSERT INTO lifeboats SELECT i % " + STATIONS + ", 'lifeboat ' || i, 6 + i % 40"
                + " FROM generate_series(1, " + STATIONS * BOATS + ") AS i;"
                + " CREATE INDEX ON lifeboats (station)");
        pool.query("VACUUM ANALYZE lifeboats");
    }

    public static void main(String[] words) throws Exception {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        int maxIdle = flags.contains("--cured") ? THREADS : 0;
        Pool pool = new Pool(URI.create(System.getenv("PATIENT_DATABASE")), maxIdle);
        fill(pool);
        for (int i = 0; i < WARM; i++) { // so that the JVM has compiled this before clients come
            tell(pool);
        }
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(THREADS));
        server.createContext("/", exchange -> serve(exchange, pool));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
