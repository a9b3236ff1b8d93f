// A web server and its client in Java: `Web serve ADDRESS PORT`, `Web get URL COUNT`.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

class Web {
    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve")) {
            byte[] body = new byte[500_000];
            var server = HttpServer.create(new InetSocketAddress(words[1], Integer.parseInt(words[2])), 0);
            server.createContext("/", exchange -> {
                exchange.sendResponseHeaders(200, body.length);
                exchange.getResponseBody().write(body);
                exchange.close();
            });
            server.start();
            return;
        }
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        long began = System.nanoTime(), got = 0;
        for (int n = 0; n < Integer.parseInt(words[2]); n++) {
            got += client.send(HttpRequest.newBuilder(URI.create(words[1])).build(), BodyHandlers.ofByteArray()).body().length;
        }
        double took = (System.nanoTime() - began) / 1e9;
        System.out.printf("bytes %d seconds %.9f rate %.6f%n", got, took, got * 8e-6 / took);
        System.exit(0);
    }
}
