// mailbags takes the tags of 24 mailbags at a time, opens their seals, and says where each has to
// go. A tag is sealed with AES, and the key is made from a passphrase with PBKDF2, which is slow on
// purpose. The service makes the key again for each batch, though the passphrase and the salt never
// change. A flight recording is shown.
//
// Cured, the key is made once, at the start.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import javax.crypto.Cipher;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.PBEKeySpec;
import javax.crypto.spec.SecretKeySpec;

public class Main {
    static final int TAGS = 500, BATCH = 24, ROUNDS = 2000, NONCE = 12, WARM = 500;
    static final String[] HARBOURS = {"Bergen", "Cork", "Hull", "Leith", "Malmo", "Vigo"};

    /** What seals tags and opens them. */
    static class Vault {
        private final char[] passphrase = "fair winds and following seas".toCharArray();
        private final byte[] salt = "mailbags".getBytes(StandardCharsets.US_ASCII);
        private final SecretKeySpec kept;

        Vault(boolean keep) throws GeneralSecurityException {
            kept = keep ? makeKey() : null;
        }

        private SecretKeySpec makeKey() throws GeneralSecurityException {
            PBEKeySpec spec = new PBEKeySpec(passphrase, salt, ROUNDS, 128);
            SecretKeyFactory factory = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256");
            return new SecretKeySpec(factory.generateSecret(spec).getEncoded(), "AES");
        }

        SecretKeySpec key() throws GeneralSecurityException {
            return kept != null ? kept : makeKey();
        }
    }

    static String seal(String tag, SecretKeySpec key, byte[] nonce)
            throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.ENCRYPT_MODE, key, new GCMParameterSpec(128, nonce));
        byte[] secret = cipher.doFinal(tag.getBytes(StandardCharsets.UTF_8));
        byte[] sealed = Arrays.copyOf(nonce, NONCE + secret.length);
        System.arraycopy(secret, 0, sealed, NONCE, secret.length);
        return Base64.getEncoder().encodeToString(sealed);
    }

    static String open(String text, SecretKeySpec key) throws GeneralSecurityException {
        byte[] sealed = Base64.getDecoder().decode(text);
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.DECRYPT_MODE, key, new GCMParameterSpec(128, sealed, 0, NONCE));
        byte[] tag = cipher.doFinal(sealed, NONCE, sealed.length - NONCE);
        return new String(tag, StandardCharsets.UTF_8);
    }

    /** Tags as the post offices print them: the harbour, the weight, and the letters in the bag. */
    static List<String> print(Vault vault) throws GeneralSecurityException {
        SecureRandom random = new SecureRandom();
        SecretKeySpec key = vault.key();
        List<String> tags = new ArrayList<>();
        for (int i = 0; i < TAGS; i++) {
            byte[] nonce = new byte[NONCE];
            random.nextBytes(nonce);
            StringBuilder tag = new StringBuilder(HARBOURS[i % HARBOURS.length]);
            tag.append(';').append(4 + i % 23).append(';');
            for (int letter = 0; letter < 60; letter++) {
                tag.append(String.format(Locale.ROOT, "%07d ", i * 7919 + letter * 104729));
            }
            tags.add(seal(tag.toString(), key, nonce));
        }
        return tags;
    }

    /** Opens a batch, and says for each harbour how many kilos go there, and which letters. */
    static String sort(List<String> tags, Vault vault) throws GeneralSecurityException {
        SecretKeySpec key = vault.key();
        Map<String, Integer> kilos = new TreeMap<>();
        Map<String, List<String>> letters = new TreeMap<>();
        for (int i = 0; i < BATCH; i++) {
            String tag = tags.get(ThreadLocalRandom.current().nextInt(TAGS));
            String[] parts = open(tag, key).split(";");
            kilos.merge(parts[0], Integer.parseInt(parts[1]), Integer::sum);
            letters.computeIfAbsent(parts[0], harbour -> new ArrayList<>())
                    .addAll(Arrays.asList(parts[2].split(" ")));
        }
        StringBuilder page = new StringBuilder();
        letters.forEach((harbour, numbers) -> {
            numbers.sort(null);
            page.append(String.format(Locale.ROOT, "%s: %d kg, %d letters from %s to %s\n", harbour,
                    kilos.get(harbour), numbers.size(), numbers.get(0),
                    numbers.get(numbers.size() - 1)));
        });
        return page.toString();
    }

    static void serve(HttpExchange exchange, List<String> tags, Vault vault) throws IOException {
        try (exchange) {
            int status = 200;
            String text;
            try {
                text = sort(tags, vault);
            } catch (GeneralSecurityException e) {
                status = 500;
                text = e + "\n";
            }
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    public static void main(String[] words) throws IOException, GeneralSecurityException {
        List<String> flags = Arrays.asList(words);
        int at = flags.indexOf("--address");
        String[] address = (at < 0 ? "127.0.0.1:18800" : flags.get(at + 1)).split(":");
        // Answers are not held back for the client's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "10000");
        Vault vault = new Vault(flags.contains("--cured"));
        List<String> tags = print(vault);
        for (int i = 0; i < WARM; i++) { // so that the JVM has compiled this before clients come
            sort(tags, vault);
        }
        InetSocketAddress bind = new InetSocketAddress(address[0], Integer.parseInt(address[1]));
        HttpServer server = HttpServer.create(bind, 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> serve(exchange, tags, vault));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
        System.out.println("ready " + address[0] + ":" + server.getAddress().getPort());
    }
}
