import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A receiver of webhooks with the JDK's own server. It remembers handled messages in memory; use a table of your database
 * instead.
 *
 * <pre>WEBHOOK_SECRET=whsec_… PORT=9000 java Receiver.java</pre>
 */
class Receiver {
    static final int MAX_BODY_BYTES = 2 * 1024 * 1024;
    static final String SECRET = System.getenv("WEBHOOK_SECRET");
    /** The ids of messages, with whether their work is done. An id with false is being worked on. */
    static final ConcurrentHashMap<String, Boolean> messages = new ConcurrentHashMap<>();

    public static void main(String[] args) throws IOException {
        int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "9000"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", Receiver::receive);
        server.start();
    }

    static void receive(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readNBytes(MAX_BODY_BYTES + 1);
            answer(exchange, body.length > MAX_BODY_BYTES ? 413 : statusOf(exchange, body));
        } catch (GeneralSecurityException | RuntimeException error) {
            error.printStackTrace();
            answer(exchange, 500);
        }
    }

    static int statusOf(HttpExchange exchange, byte[] body) throws GeneralSecurityException {
        String id = header(exchange, "webhook-id");
        String timestamp = header(exchange, "webhook-timestamp");
        if (!Webhook.verify(SECRET, id, timestamp, header(exchange, "webhook-signature"), body)) return 401;
        Boolean done = messages.putIfAbsent(id, false);
        if (done != null) return done ? 200 : 409;
        try {
            handle(id, body);
            messages.put(id, true);
            return 200;
        } finally {
            messages.remove(id, false);
        }
    }

    /** Your work. An exception is answered with 500, and Sluice sends the message again. */
    static void handle(String id, byte[] body) {
        System.out.println("handled " + id);
    }

    static String header(HttpExchange exchange, String name) {
        String value = exchange.getRequestHeaders().getFirst(name);
        return value == null ? "" : value;
    }

    static void answer(HttpExchange exchange, int status) throws IOException {
        if (status == 409) exchange.getResponseHeaders().set("Retry-After", "5");
        exchange.sendResponseHeaders(status, -1);
    }
}

final class Webhook {
    /** The headers webhook-id, webhook-timestamp and webhook-signature; the body is the raw bytes. */
    static boolean verify(String secret, String id, String timestamp, String signatures, byte[] body)
            throws GeneralSecurityException {
        long seconds;
        try {
            seconds = Long.parseLong(timestamp);
        } catch (NumberFormatException notANumber) {
            return false;
        }
        if (Math.abs(Instant.now().getEpochSecond() - seconds) > 300) return false;
        byte[] key = Base64.getDecoder().decode(secret.replaceFirst("^whsec_", ""));
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
        byte[] expected = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
        for (String entry : signatures.split(" ")) {
            if (MessageDigest.isEqual(entry.getBytes(StandardCharsets.UTF_8), expected)) return true;
        }
        return false;
    }
}
