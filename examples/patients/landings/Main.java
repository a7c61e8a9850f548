// landings reads what fishermen declare that they have landed. A declaration is a document of XML,
// and for each of the fields that are taken from it a new XPathFactory is made, and the path is
// compiled once more. A flight recording is shown.
//
// Cured, each thread has compiled the paths once.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.xml.parsers.DocumentBuilder;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.xpath.XPathExpression;
import javax.xml.xpath.XPathExpressionException;
import javax.xml.xpath.XPathFactory;
import org.w3c.dom.Document;

public class Main {
    static final int DECLARATIONS = 64, SEALS = 600;
    static final List<String> PATHS = List.of("/landing/@number", "/landing/vessel/name",
            "/landing/vessel/@port", "/landing/trip/left", "/landing/trip/landed",
            "/landing/catch[1]/species", "/landing/catch[1]/kilograms",
            "/landing/catch[2]/species", "/landing/catch[2]/kilograms", "/landing/buyer/name",
            "/landing/buyer/@licence", "/landing/signed");

    /** Compiles a path. */
    interface Compiler {
        XPathExpression compile(String path) throws XPathExpressionException;
    }

    static XPathExpression anew(String path) throws XPathExpressionException {
        return XPathFactory.newInstance().newXPath().compile(path);
    }

    static final ThreadLocal<Map<String, XPathExpression>> COMPILED =
            ThreadLocal.withInitial(LinkedHashMap::new);

    static XPathExpression once(String path) throws XPathExpressionException {
        XPathExpression compiled = COMPILED.get().get(path);
        if (compiled == null) {
            compiled = anew(path);
            COMPILED.get().put(path, compiled);
        }
        return compiled;
    }

    static final ThreadLocal<DocumentBuilder> BUILDER = ThreadLocal.withInitial(() -> {
        try {
            return DocumentBuilderFactory.newInstance().newDocumentBuilder();
        } catch (ParserConfigurationException e) {
            throw new IllegalStateException(e);
        }
    });

    /** A declaration as it comes from a ship. */
    static byte[] declaration(int i) {
        return ("<landing number=\"L" + (4000 + i) + "\"><vessel port=\"P" + i % 7 + "\">"
                + "<name>Boat " + i + "</name></vessel><trip><left>2026-03-" + (10 + i % 9)
                + "</left><landed>2026-03-" + (20 + i % 9) + "</landed></trip>"
                + "<catch><species>COD</species><kilograms>" + (100 + i * 37 % 900)
                + "</kilograms></catch><catch><species>HER</species><kilograms>"
                + (100 + i * 53 % 900) + "</kilograms></catch><buyer licence=\"B" + i * 7
                + "\"><name>Hall " + i % 5 + "</name></buyer><signed>yes</signed></landing>")
                .getBytes(StandardCharsets.UTF_8);
    }

    static final List<byte[]> ALL = IntStream.range(0, DECLARATIONS).mapToObj(Main::declaration)
            .collect(Collectors.toList());

    /** The fields of a declaration, and a seal for them. */
    static String read(byte[] declaration, Compiler compiler) throws Exception {
        Document document = BUILDER.get().parse(new ByteArrayInputStream(declaration));
        StringBuilder fields = new StringBuilder();
        for (String path : PATHS) {
            fields.append(path).append(": ").append(compiler.compile(path).evaluate(document));
            fields.append('\n');
        }
        byte[] seal = fields.toString().getBytes(StandardCharsets.UTF_8);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < SEALS; i++) {
            digest.update(declaration);
            seal = digest.digest(seal);
        }
        return fields.append(HexFormat.of().formatHex(seal)).append('\n').toString();
    }

    static void serve(HttpExchange exchange, Compiler compiler) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = read(ALL.get(ThreadLocalRandom.current().nextInt(DECLARATIONS)), compiler);
            } catch (Exception e) {
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
        Compiler compiler = flags.contains("--cured") ? Main::once : Main::anew;
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, compiler));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
