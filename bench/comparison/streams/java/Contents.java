import java.nio.ByteBuffer;
import java.util.StringJoiner;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/** What key-value stores hold, for the comparison with what they should hold. */
final class Contents {
    /** How often, and how many milliseconds apart, stores are asked that move from one thread to another. */
    private static final int TRIES = 100;
    private static final int BETWEEN = 100;

    private Contents() { }

    /**
     * An array of JSON with an object for each store: its number of entries in all partitions, and the sum over them of the 64-bit
     * FNV-1a of key and value, in hexadecimal.
     */
    static String json(KafkaStreams streams, String[] stores) throws InterruptedException {
        for (int n = 1; ; n++) {
            try {
                return read(streams, stores);
            } catch (InvalidStateStoreException e) {
                if (n == TRIES) {
                    throw e;
                }
                Thread.sleep(BETWEEN);
            }
        }
    }

    private static String read(KafkaStreams streams, String[] stores) {
        StringJoiner out = new StringJoiner(",", "[", "]");
        for (String name : stores) {
            ReadOnlyKeyValueStore<Bytes, Object> store =
                streams.store(StoreQueryParameters.fromNameAndType(name, QueryableStoreTypes.keyValueStore()));
            long entries = 0;
            long digest = 0;
            try (KeyValueIterator<Bytes, Object> all = store.all()) {
                while (all.hasNext()) {
                    KeyValue<Bytes, Object> e = all.next();
                    digest += fnv(fnv(0xcbf29ce484222325L, e.key.get()), bytes(e.value));
                    entries++;
                }
            }
            out.add("{\"store\":\"" + name + "\",\"entries\":" + entries + ",\"digest\":\"" + Long.toHexString(digest) + "\"}");
        }
        return out.toString();
    }

    /** A value as it is in the changelog; a Long is that of the DSL's count. */
    private static byte[] bytes(Object value) {
        return value instanceof Long number ? ByteBuffer.allocate(8).putLong(number).array() : (byte[]) value;
    }

    private static long fnv(long hash, byte[] bytes) {
        for (byte b : bytes) {
            hash = (hash ^ (b & 0xff)) * 0x100000001b3L;
        }
        return hash;
    }
}
