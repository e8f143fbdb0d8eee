import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * The workloads in Kafka Streams. It prints a line of JSON once it runs, and another one, with what its stores hold, for each line
 * of input; it ends when its input does.
 *
 * <p>Argument: a file with the properties of Streams, and of this program: bench.workload, bench.in and bench.out. With
 * bench.stores=cached the stores that are updated again and again are cached, which the DSL's count cannot be: its cache would
 * keep outputs back, and every input has one. The same holds for sessions and for the tables of a join by a foreign key. The table
 * that a stream is joined with is cached as the DSL does it, because it has no outputs.
 */
public final class StreamsWorkload {
    private static final String SEEN = "inbox";
    private static final String BALANCES = "balances";
    private static final String COUNTS = "counts";

    private static final int ID_BYTES = 16;
    private static final int AMOUNT_AT = 16;
    private static final int CLOCK_AT = 24;
    private static final int OTHER_AT = 32;
    private static final int OTHER_BYTES = 8;

    // The records of joins and sessions.
    private static final byte LEFT = 'l';
    private static final byte RIGHT = 'r';
    private static final int NUMBER_AT = 8;
    private static final int REFERENCE_AT = 24;
    private static final int REFERENCE_END = 32;
    private static final Duration BEFORE = Duration.ofSeconds(5);
    private static final Duration AFTER = Duration.ofSeconds(10);
    private static final Duration GAP = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofSeconds(10);

    private final StreamsBuilder builder = new StreamsBuilder();
    private final Properties properties;
    private final boolean cached;
    private String[] stores = {};

    private StreamsWorkload(Properties properties) {
        this.properties = properties;
        this.cached = "cached".equals(properties.getProperty("bench.stores"));
    }

    public static void main(String[] args) throws Exception {
        Properties properties = Child.properties(args[0]);
        StreamsWorkload workload = new StreamsWorkload(properties);
        KafkaStreams streams = new KafkaStreams(workload.topology(), properties);
        Child.start(streams);
        System.out.println("{\"running\":true}");
        for (int c = System.in.read(); c >= 0; c = System.in.read()) {
            if (c == '\n') {
                System.out.println("{\"contents\":" + Contents.json(streams, workload.stores) + "}");
            }
        }
        Child.close(streams);
    }

    private Topology topology() {
        KStream<Bytes, byte[]> in =
            builder.stream(properties.getProperty("bench.in"), Consumed.with(Serdes.Bytes(), Serdes.ByteArray()));
        String workload = properties.getProperty("bench.workload");
        switch (workload) {
            case "pass" -> write(in);
            case "count" -> count(in, false);
            case "repartition" -> count(in.selectKey((key, value) -> other(value)), true);
            case "ledger" -> write(balances(accepted(in)));
            case "flights" -> write(balances(byOther(accepted(in).selectKey((key, value) -> other(value)))));
            case "stream-table" -> streamTable(in);
            case "stream-stream" -> streamStream(in);
            case "foreign-key" -> foreignKey(in);
            case "sessions" -> sessions(in);
            default -> throw new IllegalArgumentException("there is no workload " + workload);
        }
        return builder.build();
    }

    private void write(KStream<Bytes, byte[]> records) {
        records.to(properties.getProperty("bench.out"), Produced.with(Serdes.Bytes(), Serdes.ByteArray()));
    }

    private KStream<Bytes, byte[]> byOther(KStream<Bytes, byte[]> records) {
        return records.repartition(
            Repartitioned.<Bytes, byte[]>as("by-other").withKeySerde(Serdes.Bytes()).withValueSerde(Serdes.ByteArray()));
    }

    /** One output per input, by the DSL, or by a processor if the store is cached. */
    private void count(KStream<Bytes, byte[]> records, boolean rekeyed) {
        stores = new String[] {COUNTS};
        if (cached) {
            builder.addStateStore(store(COUNTS, true));
            write((rekeyed ? byOther(records) : records).processValues(Counter::new, COUNTS));
            return;
        }
        records.groupByKey(Grouped.with("by-other", Serdes.Bytes(), Serdes.ByteArray()))
            .count(Materialized.<Bytes, Long, KeyValueStore<Bytes, byte[]>>as(COUNTS).withKeySerde(Serdes.Bytes())
                .withValueSerde(Serdes.Long()).withCachingDisabled())
            .toStream().to(properties.getProperty("bench.out"), Produced.with(Serdes.Bytes(), Serdes.Long()));
    }

    private KStream<Bytes, byte[]> accepted(KStream<Bytes, byte[]> records) {
        // A cache has nothing to offer here: nearly every id is new.
        builder.addStateStore(store(SEEN, false));
        return records.processValues(Dedupe::new, SEEN);
    }

    private KStream<Bytes, byte[]> balances(KStream<Bytes, byte[]> records) {
        stores = new String[] {SEEN, BALANCES};
        builder.addStateStore(store(BALANCES, cached));
        return records.processValues(Ledger::new, BALANCES);
    }

    private static StoreBuilder<KeyValueStore<Bytes, byte[]>> store(String name, boolean cached) {
        StoreBuilder<KeyValueStore<Bytes, byte[]>> store =
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), Serdes.Bytes(), Serdes.ByteArray());
        return cached ? store.withCachingEnabled() : store;
    }

    private static KStream<Bytes, byte[]> side(KStream<Bytes, byte[]> in, byte side) {
        return in.filter((key, value) -> value[0] == side);
    }

    /** Number and amount of both sides. */
    private static byte[] both(byte[] left, byte[] right) {
        int bytes = REFERENCE_AT - NUMBER_AT;
        return ByteBuffer.allocate(2 * bytes).put(left, NUMBER_AT, bytes).put(right, NUMBER_AT, bytes).array();
    }

    private static Materialized<Bytes, byte[], KeyValueStore<Bytes, byte[]>> rows(String store) {
        return Materialized.<Bytes, byte[], KeyValueStore<Bytes, byte[]>>as(store).withKeySerde(Serdes.Bytes())
            .withValueSerde(Serdes.ByteArray());
    }

    private void streamTable(KStream<Bytes, byte[]> in) {
        KTable<Bytes, byte[]> rows = side(in, RIGHT).toTable(rows("rows"));
        write(side(in, LEFT).join(rows, StreamsWorkload::both,
            Joined.with(Serdes.Bytes(), Serdes.ByteArray(), Serdes.ByteArray())));
    }

    private void streamStream(KStream<Bytes, byte[]> in) {
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(AFTER, GRACE).before(BEFORE).after(AFTER);
        write(side(in, LEFT).join(side(in, RIGHT), StreamsWorkload::both, windows,
            StreamJoined.with(Serdes.Bytes(), Serdes.ByteArray(), Serdes.ByteArray()).withName("joined").withStoreName("joined")));
    }

    /** Every change of a row leads to a result, so that no cache may keep changes back. */
    private void foreignKey(KStream<Bytes, byte[]> in) {
        KTable<Bytes, byte[]> lefts = side(in, LEFT).toTable(rows("lefts").withCachingDisabled());
        KTable<Bytes, byte[]> rights = side(in, RIGHT).toTable(rows("rights").withCachingDisabled());
        KTable<Bytes, byte[]> joined = lefts.join(rights,
            left -> Bytes.wrap(Arrays.copyOfRange(left, REFERENCE_AT, REFERENCE_END)), StreamsWorkload::both,
            TableJoined.<Bytes, Bytes>as("joined"));
        write(joined.toStream());
    }

    /** One output per input: the session that the record is in. That sessions have become part of it is left out. */
    private void sessions(KStream<Bytes, byte[]> in) {
        write(in.groupByKey(Grouped.with(Serdes.Bytes(), Serdes.ByteArray()))
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, GRACE))
            .aggregate(() -> new byte[16], (key, value, sum) -> plus(sum, 1, ByteBuffer.wrap(value).getLong(AMOUNT_AT)),
                (key, a, b) -> plus(a, ByteBuffer.wrap(b).getLong(0), ByteBuffer.wrap(b).getLong(8)),
                Materialized.<Bytes, byte[], SessionStore<Bytes, byte[]>>as("sessions").withKeySerde(Serdes.Bytes())
                    .withValueSerde(Serdes.ByteArray()).withCachingDisabled())
            .toStream().filter((session, sum) -> sum != null)
            .map((session, sum) -> KeyValue.pair(session.key(), ByteBuffer.allocate(32).putLong(session.window().start())
                .putLong(session.window().end()).put(sum).array())));
    }

    /** Adds to a count and a sum. */
    private static byte[] plus(byte[] sum, long count, long amount) {
        ByteBuffer before = ByteBuffer.wrap(sum);
        return ByteBuffer.allocate(16).putLong(before.getLong(0) + count).putLong(before.getLong(8) + amount).array();
    }

    private static Bytes other(byte[] value) {
        return Bytes.wrap(Arrays.copyOfRange(value, OTHER_AT, OTHER_AT + OTHER_BYTES));
    }

    /** What the processors have in common: one store. */
    private abstract static class Stateful implements FixedKeyProcessor<Bytes, byte[], byte[]> {
        private final String name;
        FixedKeyProcessorContext<Bytes, byte[]> context;
        KeyValueStore<Bytes, byte[]> store;

        Stateful(String name) {
            this.name = name;
        }

        @Override
        public void init(FixedKeyProcessorContext<Bytes, byte[]> context) {
            this.context = context;
            this.store = context.getStateStore(name);
        }
    }

    /** Lets the first record with each id pass. It keeps a timestamp, and no hash of the value as Onceward's inbox does. */
    private static final class Dedupe extends Stateful {
        Dedupe() {
            super(SEEN);
        }

        @Override
        public void process(FixedKeyRecord<Bytes, byte[]> record) {
            Bytes id = Bytes.wrap(Arrays.copyOf(record.value(), ID_BYTES));
            if (store.get(id) != null) {
                return;
            }
            store.put(id, ByteBuffer.allocate(8).putLong(record.timestamp()).array());
            context.forward(record);
        }
    }

    /** Keeps count and balance of each key. */
    private static final class Ledger extends Stateful {
        Ledger() {
            super(BALANCES);
        }

        @Override
        public void process(FixedKeyRecord<Bytes, byte[]> record) {
            ByteBuffer event = ByteBuffer.wrap(record.value());
            long count = 1;
            long balance = event.getLong(AMOUNT_AT);
            byte[] before = store.get(record.key());
            if (before != null) {
                ByteBuffer old = ByteBuffer.wrap(before);
                count += old.getLong(0);
                balance += old.getLong(8);
            }
            store.put(record.key(), ByteBuffer.allocate(16).putLong(count).putLong(balance).array());
            context.forward(record.withValue(
                ByteBuffer.allocate(32).putLong(count).putLong(balance).putLong(0).putLong(event.getLong(CLOCK_AT)).array()));
        }
    }

    /** Keeps the count of each key. */
    private static final class Counter extends Stateful {
        Counter() {
            super(COUNTS);
        }

        @Override
        public void process(FixedKeyRecord<Bytes, byte[]> record) {
            byte[] before = store.get(record.key());
            byte[] count = ByteBuffer.allocate(8).putLong(before == null ? 1 : ByteBuffer.wrap(before).getLong() + 1).array();
            store.put(record.key(), count);
            context.forward(record.withValue(count));
        }
    }
}
