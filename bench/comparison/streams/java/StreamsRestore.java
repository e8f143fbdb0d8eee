import java.util.Map;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The same two stores in Kafka Streams. It restores them, prints one line of JSON once it runs, and ends when its input does.
 *
 * <p>Arguments: a file with the properties of Streams, the input topic, "read" or "skip" for the contents, the stores' names.
 */
public final class StreamsRestore {
    /** Part is the restore of one changelog partition, in nanoseconds of this process's clock. */
    private static final class Part {
        long from;
        long to;
        long records;
    }

    private static final class Listener implements StateRestoreListener {
        private final Map<String, Part> parts = new TreeMap<>();

        private Part part(TopicPartition partition, String store) {
            return parts.computeIfAbsent("\"store\":\"" + store + "\",\"partition\":" + partition.partition(), k -> new Part());
        }

        @Override
        public synchronized void onRestoreStart(TopicPartition partition, String store, long start, long end) {
            Part p = part(partition, store);
            if (p.from == 0) { // a second start would hide the time until then
                p.from = System.nanoTime();
            }
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long records) { }

        /** Threads that start one after the other pass tasks on, which are then restored from where they were. */
        @Override
        public synchronized void onRestoreSuspended(TopicPartition partition, String store, long records) {
            part(partition, store).records += records;
        }

        @Override
        public synchronized void onRestoreEnd(TopicPartition partition, String store, long records) {
            Part p = part(partition, store);
            p.to = System.nanoTime();
            p.records += records;
        }

        /** The times count from the first start. */
        synchronized String json() {
            long first = Long.MAX_VALUE;
            for (Part p : parts.values()) {
                first = Math.min(first, p.from);
            }
            StringJoiner out = new StringJoiner(",", "[", "]");
            for (Map.Entry<String, Part> e : parts.entrySet()) {
                Part p = e.getValue();
                out.add("{" + e.getKey() + ",\"from_ns\":" + (p.from - first) + ",\"to_ns\":" + (p.to - first)
                    + ",\"records\":" + p.records + "}");
            }
            return out.toString();
        }
    }

    /** Writer puts every record into all stores. */
    private static final class Writer implements Processor<Bytes, byte[], Void, Void> {
        private final String[] names;
        private KeyValueStore<Bytes, byte[]>[] stores;

        Writer(String[] names) {
            this.names = names;
        }

        @Override
        @SuppressWarnings("unchecked")
        public void init(ProcessorContext<Void, Void> context) {
            stores = new KeyValueStore[names.length];
            for (int i = 0; i < names.length; i++) {
                stores[i] = context.getStateStore(names[i]);
            }
        }

        @Override
        public void process(Record<Bytes, byte[]> record) {
            for (KeyValueStore<Bytes, byte[]> store : stores) {
                store.put(record.key(), record.value());
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Properties properties = Child.properties(args[0]);
        String[] names = java.util.Arrays.copyOfRange(args, 3, args.length);
        StreamsBuilder builder = new StreamsBuilder();
        for (String name : names) {
            builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(name), Serdes.Bytes(), Serdes.ByteArray()));
        }
        builder.stream(args[1], Consumed.with(Serdes.Bytes(), Serdes.ByteArray())).process(() -> new Writer(names), names);

        Listener listener = new Listener();
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setGlobalStateRestoreListener(listener);
        Child.start(streams);
        String contents = args[2].equals("read") ? Contents.json(streams, names) : "[]";
        System.out.println("{\"parts\":" + listener.json() + ",\"contents\":" + contents + "}");
        while (System.in.read() >= 0) { } // the measurement reads this process's memory meanwhile
        Child.close(streams);
    }
}
