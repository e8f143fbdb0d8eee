import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Consumer;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.UsePartitionTimeOnInvalidTimestamp;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs small topologies of Kafka Streams on given records and writes what comes out.
 *
 * <p>Usage: Differential INPUT OUTPUT. The input has cases:
 *
 * <pre>
 * case OPERATOR
 * TOPIC TIMESTAMP KEY VALUE
 * end
 * </pre>
 *
 * Keys and values are hexadecimal, "-" is null. For each case the output has the same lines for what was written, topic by topic in the
 * order of their names, and within a topic in the order of writing. Keys are strings, values are longs.
 */
public final class Differential {
    private static final Serde<String> STRING = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();
    private static final long SIZE = 10;
    private static final long ADVANCE = 3;
    private static final long GRACE = 5;

    private final Map<String, Consumer<StreamsBuilder>> operators = new TreeMap<>();

    private Differential() {
        stateless();
        aggregations();
        windows();
        tables();
        times();
    }

    public static void main(final String[] args) throws IOException {
        final Differential d = new Differential();
        try (BufferedReader in = Files.newBufferedReader(Path.of(args[0]), StandardCharsets.US_ASCII);
             BufferedWriter out = Files.newBufferedWriter(Path.of(args[1]), StandardCharsets.US_ASCII)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                final String operator = line.substring("case ".length());
                final List<String[]> records = new ArrayList<>();
                for (line = in.readLine(); !line.equals("end"); line = in.readLine()) {
                    records.add(line.split(" "));
                }
                out.write("case " + operator + "\n");
                try {
                    d.run(operator, records, out);
                } catch (final RuntimeException e) { // it is what comes out of this case
                    out.write("error " + e.getClass().getName() + "\n");
                }
                out.write("end\n");
            }
        }
    }

    private void run(final String operator, final List<String[]> records, final BufferedWriter out) throws IOException {
        final Consumer<StreamsBuilder> declare = operators.get(operator);
        if (declare == null) {
            throw new IllegalArgumentException("there is no operator " + operator);
        }
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "differential");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.LongSerde.class);
        // A windowed aggregation that emits on close looks for closed windows with every record, and not once a second.
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        final StreamsBuilder builder = new StreamsBuilder();
        declare.accept(builder);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), config, Instant.EPOCH)) {
            final Map<String, TestInputTopic<byte[], byte[]>> inputs = new TreeMap<>();
            for (final String[] r : records) {
                final TestInputTopic<byte[], byte[]> input = inputs.computeIfAbsent(r[0],
                    topic -> driver.createInputTopic(topic, new ByteArraySerializer(), new ByteArraySerializer()));
                input.pipeInput(new TestRecord<>(unhex(r[2]), unhex(r[3]), Instant.ofEpochMilli(Long.parseLong(r[1]))));
            }
            for (final String topic : driver.producedTopicNames().stream().sorted().toList()) {
                if (!topic.startsWith("out")) {
                    continue;
                }
                final TestOutputTopic<byte[], byte[]> output =
                    driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                while (!output.isEmpty()) {
                    final TestRecord<byte[], byte[]> r = output.readRecord();
                    out.write(topic + " " + r.timestamp() + " " + hex(r.key()) + " " + hex(r.value()) + "\n");
                }
            }
        }
    }

    private static String hex(final byte[] b) {
        if (b == null) {
            return "-";
        }
        final StringBuilder s = new StringBuilder("x");
        for (final byte one : b) {
            s.append(String.format("%02x", one));
        }
        return s.toString();
    }

    private static byte[] unhex(final String s) {
        if (s.equals("-")) {
            return null;
        }
        final byte[] b = new byte[(s.length() - 1) / 2];
        for (int i = 0; i < b.length; i++) {
            b[i] = (byte) Integer.parseInt(s.substring(1 + 2 * i, 3 + 2 * i), 16);
        }
        return b;
    }

    private static KStream<String, Long> in(final StreamsBuilder b) {
        return b.stream("in", Consumed.with(STRING, LONG));
    }

    private static void to(final KStream<String, Long> s, final String topic) {
        s.to(topic, Produced.with(STRING, LONG));
    }

    private static Materialized<String, Long, KeyValueStore<Bytes, byte[]>> store(final String name) {
        return Materialized.<String, Long>as(Stores.inMemoryKeyValueStore(name)).withKeySerde(STRING).withValueSerde(LONG);
    }

    private static Materialized<String, Long, WindowStore<Bytes, byte[]>> windowStore(final String name) {
        return Materialized.<String, Long>as(Stores.inMemoryWindowStore(name, Duration.ofMillis(SIZE + GRACE), Duration.ofMillis(SIZE), false))
            .withKeySerde(STRING).withValueSerde(LONG);
    }

    /** Emitting on close looks the results up in the store, and finds none that the store has forgotten in a jump of the time. */
    private static Materialized<String, Long, WindowStore<Bytes, byte[]>> keeping(final String name) {
        return Materialized.<String, Long>as(Stores.inMemoryWindowStore(name, Duration.ofHours(1), Duration.ofMillis(SIZE), false))
            .withKeySerde(STRING).withValueSerde(LONG);
    }

    private static TimeWindows tumbling() {
        return TimeWindows.ofSizeAndGrace(Duration.ofMillis(SIZE), Duration.ofMillis(GRACE));
    }

    private static TimeWindows hopping() {
        return tumbling().advanceBy(Duration.ofMillis(ADVANCE));
    }

    /** A windowed aggregation takes null values for values, so those that would fail on them get none. */
    private static KStream<String, Long> values(final StreamsBuilder b) {
        return in(b).filter((k, v) -> v != null);
    }

    private static long or(final Long v, final long absent) {
        return v == null ? absent : v;
    }

    /** A group of a value. Java's remainder has the sign of the dividend, as Go's has. */
    private static String group(final Long v) {
        return v == null ? "none" : "g" + v % 3;
    }

    private void stateless() {
        operators.put("map", b -> to(in(b).map((k, v) -> KeyValue.pair(k == null ? "none" : k + "x", or(v, -1) + 1)), "out"));
        operators.put("map-values", b -> to(in(b).mapValues(v -> v == null ? null : v * 2), "out"));
        operators.put("flat-map", b -> to(in(b).flatMap((k, v) -> {
            final List<KeyValue<String, Long>> all = new ArrayList<>();
            for (long i = 0; i < or(v, 1) % 4; i++) {
                all.add(KeyValue.pair(k == null ? null : k + i, i));
            }
            return all;
        }), "out"));
        operators.put("filter", b -> to(in(b).filter((k, v) -> v != null && v % 2 == 0), "out"));
        operators.put("select-key", b -> to(in(b).selectKey((k, v) -> v == null ? null : group(v)), "out"));
        operators.put("peek", b -> to(in(b).peek((k, v) -> Objects.hash(k, v)), "out"));
        operators.put("merge", b -> to(in(b).merge(b.stream("other", Consumed.with(STRING, LONG))), "out"));
        operators.put("split", b -> in(b).split(Named.as("split-"))
            .branch((k, v) -> v != null && v % 2 == 0, Branched.withConsumer(s -> to(s, "out-even")))
            .branch((k, v) -> v != null && v < 10, Branched.withConsumer(s -> to(s, "out-small")))
            .defaultBranch(Branched.withConsumer(s -> to(s, "out-rest"))));
        operators.put("fan-out", b -> {
            final KStream<String, Long> s = in(b);
            to(s.filter((k, v) -> v != null), "out-values");
            to(s, "out-all");
        });
        operators.put("dynamic", b -> in(b).to((k, v, context) -> or(v, 0) % 2 == 0 ? "out-even" : "out-odd", Produced.with(STRING, LONG)));
        operators.put("repartition", b -> to(in(b).selectKey((k, v) -> group(v))
            .repartition(Repartitioned.with(STRING, LONG).withName("moved")), "out"));
    }

    private void aggregations() {
        operators.put("count", b -> to(in(b).groupByKey().count(store("count")).toStream(), "out"));
        operators.put("reduce", b -> to(in(b).groupByKey().reduce(Long::sum, store("reduce")).toStream(), "out"));
        operators.put("aggregate", b -> to(in(b).groupByKey().aggregate(() -> 100L,
            (k, v, agg) -> (agg + v) % 7 == 0 ? null : agg + v, store("aggregate")).toStream(), "out"));
        operators.put("group-by-count", b -> to(in(b).groupBy((k, v) -> group(v), Grouped.with("moved", STRING, LONG))
            .count(store("count")).toStream(), "out"));
    }

    private static void windowed(final KTable<Windowed<String>, Long> t) {
        t.toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, SIZE), LONG));
    }

    private static TimeWindowedKStream<String, Long> windowedBy(final StreamsBuilder b, final TimeWindows w) {
        return in(b).groupByKey().windowedBy(w);
    }

    private static KTable<Windowed<String>, Long> closed(final KTable<Windowed<String>, Long> t) {
        return t.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()));
    }

    private void windows() {
        operators.put("count-tumbling", b -> windowed(windowedBy(b, tumbling()).count(windowStore("count"))));
        operators.put("count-hopping", b -> windowed(windowedBy(b, hopping()).count(windowStore("count"))));
        operators.put("reduce-hopping", b -> windowed(values(b).groupByKey().windowedBy(hopping()).reduce(Long::sum, windowStore("reduce"))));
        operators.put("aggregate-tumbling", b -> windowed(values(b).groupByKey().windowedBy(tumbling()).aggregate(() -> 100L,
            (k, v, agg) -> agg + v, windowStore("aggregate"))));
        operators.put("count-tumbling-suppressed", b -> windowed(closed(windowedBy(b, tumbling()).count(windowStore("count")))));
        operators.put("count-hopping-suppressed", b -> windowed(closed(windowedBy(b, hopping()).count(windowStore("count")))));
        operators.put("count-tumbling-on-close", b -> windowed(windowedBy(b, tumbling()).emitStrategy(EmitStrategy.onWindowClose())
            .count(keeping("count"))));
    }

    private static KTable<String, Long> table(final StreamsBuilder b, final String topic) {
        return b.table(topic, Consumed.with(STRING, LONG), store(topic + "-table"));
    }

    private void tables() {
        operators.put("table", b -> to(table(b, "in").toStream(), "out"));
        operators.put("to-table", b -> to(in(b).toTable(store("in-table")).toStream(), "out"));
        operators.put("table-filter", b -> to(table(b, "in").filter((k, v) -> v % 2 == 0).toStream(), "out"));
        operators.put("table-map", b -> to(table(b, "in").mapValues(v -> v * 2).toStream(), "out"));
        operators.put("table-join", b -> to(table(b, "in").join(table(b, "other"), Long::sum).toStream(), "out"));
        operators.put("table-left-join", b -> to(table(b, "in").leftJoin(table(b, "other"), (l, r) -> l + or(r, 1000)).toStream(), "out"));
        operators.put("table-outer-join", b -> to(table(b, "in").outerJoin(table(b, "other"),
            (l, r) -> or(l, 2000) + or(r, 1000)).toStream(), "out"));
        operators.put("table-group-count", b -> to(table(b, "in").groupBy((k, v) -> KeyValue.pair(group(v), v), Grouped.with("moved", STRING, LONG))
            .count(store("count")).toStream(), "out"));
        operators.put("table-group-reduce", b -> to(table(b, "in").groupBy((k, v) -> KeyValue.pair(group(v), v), Grouped.with("moved", STRING, LONG))
            .reduce(Long::sum, (agg, v) -> agg - v, store("reduce")).toStream(), "out"));
        operators.put("table-group-aggregate", b -> to(table(b, "in").groupBy((k, v) -> KeyValue.pair(group(v), v), Grouped.with("moved", STRING, LONG))
            .aggregate(() -> 100L, (k, v, agg) -> agg + v, (k, v, agg) -> agg - v, store("aggregate")).toStream(), "out"));
        operators.put("table-count-join", b -> {
            final KStream<String, Long> s = in(b);
            final KTable<String, Long> sums = s.groupByKey().reduce(Long::sum, store("sums"));
            to(sums.join(s.groupByKey().count(store("counts")), (sum, n) -> sum * 1000 + n).toStream(), "out");
        });
    }

    /** The value is the time. */
    private static final class ValueTime implements TimestampExtractor {
        @Override
        public long extract(final ConsumerRecord<Object, Object> record, final long partitionTime) {
            return or((Long) record.value(), record.timestamp());
        }
    }

    private static KStream<String, Long> in(final StreamsBuilder b, final TimestampExtractor times) {
        return b.stream("in", Consumed.with(STRING, LONG).withTimestampExtractor(times));
    }

    private void times() {
        operators.put("skip-invalid", b -> to(in(b, new LogAndSkipOnInvalidTimestamp()), "out"));
        operators.put("partition-time-for-invalid", b -> to(in(b, new UsePartitionTimeOnInvalidTimestamp()), "out"));
        operators.put("event-time", b -> windowed(in(b, new ValueTime()).groupByKey().windowedBy(tumbling()).count(windowStore("count"))));
    }
}
