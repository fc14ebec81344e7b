import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.h2.H2Backend;

/**
 * Starts mongo-java-server with its H2 backend at an address and a port of one's
 * choice, which the main program that it comes with cannot be told.
 *
 *     Database ADDRESS PORT [FILE]
 *
 * Documents lie in FILE, which "nioMapped:" before its name has mapped into memory;
 * without one they are kept in memory alone. It ends when it is told to terminate,
 * with all that it was told written.
 */
final class Database {
    private Database() {}

    public static void main(String[] arguments) {
        if (arguments.length < 2 || arguments.length > 3 || !arguments[0].matches("[0-9.]{7,15}") || !arguments[1].matches("[0-9]{1,5}")) {
            System.err.println("usage: Database ADDRESS PORT [FILE]");
            System.exit(2);
        }
        H2Backend backend = arguments.length == 3 ? new H2Backend(arguments[2]) : H2Backend.inMemory();
        MongoServer server = new MongoServer(backend);
        server.bind(arguments[0], Integer.parseInt(arguments[1]));
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));
    }
}
