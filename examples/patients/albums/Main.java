// albums shows the photographs of an album, which are files in a folder. Its cover is the first file that is
// one; where there is none, it returns early, and the folder that it has listed (Files.newDirectoryStream)
// stays open: a descriptor is left behind for one request in 24.
//
// Cured, the folder is closed however the search ends.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

public class Main {
    static final int ALBUMS = 48, PHOTOGRAPHS = 40, WITHOUT_COVER = 24;

    /** The albums, a folder for each. */
    static class Shelf {
        private final Path folder;
        private final boolean tidy;
        private final AtomicInteger asked = new AtomicInteger();

        Shelf(boolean tidy) throws IOException {
            this.tidy = tidy;
            folder = Files.createTempDirectory("patient-albums-");
            for (int i = 0; i < ALBUMS; i++) {
                Path album = Files.createDirectory(folder.resolve("album-" + i));
                for (int j = 0; j < PHOTOGRAPHS; j++) {
                    Files.writeString(album.resolve("quay-" + j + ".jpg"), ("photograph " + i + " " + j + " ").repeat(1200));
                }
                if (i % WITHOUT_COVER != 0) {
                    Files.writeString(album.resolve("cover.jpg"), "cover");
                }
            }
        }

        void remove() {
            try (Stream<Path> all = Files.walk(folder)) {
                all.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete());
            } catch (IOException e) {
                System.err.println("remove the albums: " + e.getMessage());
            }
        }

        Path next() {
            return folder.resolve("album-" + Math.floorMod(asked.getAndIncrement(), ALBUMS));
        }

        List<Path> photographs(Path album) throws IOException {
            if (tidy) {
                try (DirectoryStream<Path> files = Files.newDirectoryStream(album)) {
                    return withCover(files);
                }
            }
            DirectoryStream<Path> files = Files.newDirectoryStream(album);
            List<Path> all = withCover(files);
            if (!all.get(0).endsWith("cover.jpg")) {
                return all;
            }
            files.close();
            return all;
        }

        /** The photographs by name, the cover before all others. */
        private static List<Path> withCover(DirectoryStream<Path> files) {
            List<Path> all = new ArrayList<>();
            files.forEach(all::add);
            Collections.sort(all);
            all.stream().filter(p -> p.endsWith("cover.jpg")).findFirst().ifPresent(cover -> {
                all.remove(cover);
                all.add(0, cover);
            });
            return all;
        }
    }

    static String page(Shelf shelf) throws IOException, GeneralSecurityException {
        Path album = shelf.next();
        StringBuilder page = new StringBuilder("{\"album\":\"" + album.getFileName() + "\",\"photographs\":[");
        for (Path p : shelf.photographs(album)) {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(p));
            page.append(page.charAt(page.length() - 1) == '[' ? "" : ",").append("{\"file\":\"").append(p.getFileName())
                    .append("\",\"etag\":\"").append(HexFormat.of().formatHex(hash, 0, 10)).append("\"}");
        }
        return page.append("]}\n").toString();
    }

    static void serve(HttpExchange exchange, Shelf shelf) throws IOException {
        try (exchange) {
            byte[] body = page(shelf).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
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
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Shelf shelf = new Shelf(flags.contains("--cured"));
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/", exchange -> serve(exchange, shelf));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            shelf.remove();
            Runtime.getRuntime().halt(0);
        }));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
