import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
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
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.UsePartitionTimeOnInvalidTimestamp;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.ProcessorNode;
import org.apache.kafka.streams.processor.internals.ProcessorTopology;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.InMemoryWindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.InMemoryWindowStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs small topologies of Kafka Streams on given records and writes what comes out.
 *
 * <p>Usage: Differential INPUT OUTPUT. The input has cases:
 *
 * <pre>
 * case OPERATOR [headers] [dropped]
 * TOPIC TIMESTAMP KEY VALUE [NAME=VALUE ...]
 * clock MILLISECONDS
 * end
 * </pre>
 *
 * A line "describe OPERATOR" in place of the first one asks for the description of the topology.
 *
 * <p>Keys and values are hexadecimal, "-" is null; what follows them are headers. A line with "clock" moves the wall clock on. For each case
 * the output has the same lines for what was written, topic by topic in the order of their names, and within a topic in the order of
 * writing; headers if they are asked for. If it is asked for as well, the last line is "dropped" and how many records were dropped. Keys
 * are strings, values are longs.
 */
public final class Differential {
    private static final Serde<String> STRING = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();
    private static final long SIZE = 10;
    private static final long ADVANCE = 3;
    private static final long GRACE = 5;
    private static final long EVERY = 7;
    private static final long START = 1_000_000;

    private final Map<String, Consumer<StreamsBuilder>> operators = new TreeMap<>();

    private Differential() {
        stateless();
        partitioned();
        pattern();
        headers();
        processors();
        aggregations();
        windows();
        closings();
        sliding();
        cogroups();
        tables();
        suppressions();
        streamJoins();
        foreignKeys();
        versioned();
        times();
        invalid();
        differences();
    }

    public static void main(final String[] args) throws IOException {
        final Differential d = new Differential();
        try (BufferedReader in = Files.newBufferedReader(Path.of(args[0]), StandardCharsets.US_ASCII);
             BufferedWriter out = Files.newBufferedWriter(Path.of(args[1]), StandardCharsets.US_ASCII)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                final List<String> asked = Arrays.asList(line.split(" "));
                final String operator = asked.get(1);
                final List<String[]> steps = new ArrayList<>();
                for (line = in.readLine(); !line.equals("end"); line = in.readLine()) {
                    steps.add(line.split(" "));
                }
                out.write("case " + operator + "\n");
                try {
                    if (asked.get(0).equals("describe")) {
                        out.write(d.describe(operator));
                    } else {
                        d.run(operator, steps, Set.copyOf(asked.subList(2, asked.size())), out);
                    }
                } catch (final RuntimeException e) { // it is what comes out of this case
                    out.write("error " + e.getClass().getName() + "\n");
                }
                out.write("end\n");
            }
        }
    }

    private Topology topology(final String operator) {
        final Consumer<StreamsBuilder> declare = operators.get(operator);
        if (declare == null) {
            throw new IllegalArgumentException("there is no operator " + operator);
        }
        final StreamsBuilder builder = new StreamsBuilder();
        declare.accept(builder);
        return builder.build();
    }

    /** The description of a topology, as lines. */
    private String describe(final String operator) {
        final String description = topology(operator).describe().toString();
        return description.endsWith("\n") ? description : description + "\n";
    }

    private void run(final String operator, final List<String[]> steps, final Set<String> asked, final BufferedWriter out)
        throws IOException {
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "differential");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.LongSerde.class);
        // A windowed aggregation that emits on close looks for closed windows with every record, and not once a second.
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        // So does an outer join.
        config.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(operator), config, Instant.ofEpochMilli(START))) {
            final List<Object> trackers = operator.endsWith("-as-it-is") ? List.of() : joinTimes(driver);
            final Map<String, TestInputTopic<byte[], byte[]>> inputs = new TreeMap<>();
            for (final String[] r : steps) {
                if (r[0].equals("clock")) {
                    driver.advanceWallClockTime(Duration.ofMillis(Long.parseLong(r[1])));
                    continue;
                }
                final TestInputTopic<byte[], byte[]> input = inputs.computeIfAbsent(r[0],
                    topic -> driver.createInputTopic(topic, new ByteArraySerializer(), new ByteArraySerializer()));
                for (final Object tracker : trackers) {
                    lookAlways(tracker);
                }
                input.pipeInput(new TestRecord<>(unhex(r[2]), unhex(r[3]), headersOf(r), Instant.ofEpochMilli(Long.parseLong(r[1]))));
            }
            for (final String topic : driver.producedTopicNames().stream().sorted().toList()) {
                if (!topic.startsWith("out")) {
                    continue;
                }
                final TestOutputTopic<byte[], byte[]> output =
                    driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                while (!output.isEmpty()) {
                    final TestRecord<byte[], byte[]> r = output.readRecord();
                    out.write(topic + " " + r.timestamp() + " " + hex(r.key()) + " " + hex(r.value()));
                    for (final Header h : asked.contains("headers") ? r.headers() : new RecordHeaders()) {
                        out.write(" " + h.key() + "=" + hex(h.value()));
                    }
                    out.write("\n");
                }
            }
            if (asked.contains("dropped")) {
                out.write("dropped " + dropped(driver) + "\n");
            }
        }
    }

    /** The times of the outer joins. */
    private static List<Object> joinTimes(final TopologyTestDriver driver) {
        final List<Object> trackers = new ArrayList<>();
        final ProcessorTopology topology = (ProcessorTopology) field(TopologyTestDriver.class, "processorTopology", driver);
        for (final ProcessorNode<?, ?, ?, ?> node : topology.processors()) {
            final Object processor = field(ProcessorNode.class, "processor", node);
            for (Class<?> c = processor == null ? null : processor.getClass(); c != null; c = c.getSuperclass()) {
                if (c.getSimpleName().equals("KStreamKStreamJoinProcessor")) {
                    trackers.add(field(c, "sharedTimeTracker", processor));
                }
            }
        }
        return trackers;
    }

    /**
     * An outer join looks for what has closed only if the earliest record that it has seen waiting may be over. After a look it takes the
     * last one that it has seen for the earliest, so that others wait for longer. This has it look with every record.
     */
    private static void lookAlways(final Object tracker) {
        try {
            final Field earliest = tracker.getClass().getDeclaredField("minTime");
            earliest.setAccessible(true);
            earliest.setLong(tracker, Long.MIN_VALUE / 2);
        } catch (final ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Object field(final Class<?> of, final String name, final Object from) {
        try {
            final Field f = of.getDeclaredField(name);
            f.setAccessible(true);
            return f.get(from);
        } catch (final ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** How many records all nodes have dropped: they are late, have a key or value that must not be null, or no valid timestamp. */
    private static long dropped(final TopologyTestDriver driver) {
        long n = 0;
        for (final Map.Entry<MetricName, ? extends Metric> metric : driver.metrics().entrySet()) {
            if (metric.getKey().name().equals("dropped-records-total")) {
                n += ((Number) metric.getValue().metricValue()).longValue();
            }
        }
        return n;
    }

    /** The headers behind the value of a record. */
    private static Headers headersOf(final String[] r) {
        final Headers headers = new RecordHeaders();
        for (int i = 4; i < r.length; i++) {
            final int equals = r[i].indexOf('=');
            headers.add(r[i].substring(0, equals), unhex(r[i].substring(equals + 1)));
        }
        return headers;
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

    private static Materialized<String, Long, SessionStore<Bytes, byte[]>> sessionStore(final String name, final long grace) {
        return Materialized.<String, Long>as(Stores.inMemorySessionStore(name, Duration.ofMillis(SIZE + grace + 1)))
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

    /** A windowed aggregation takes null values for values, so those that would fail on them get none, unless they drop the null key. */
    private static KStream<String, Long> values(final StreamsBuilder b) {
        return in(b).filter((k, v) -> k == null || v != null).mapValues(v -> v);
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
            .repartition(Repartitioned.with(STRING, LONG).withName("moved")).mapValues(v -> v), "out"));
    }

    private void partitioned() {
        operators.put("partitioned", b -> in(b).selectKey((k, v) -> group(v))
            .repartition(Repartitioned.with(STRING, LONG).withName("moved").withStreamPartitioner((topic, k, v, n) -> Optional.of(Set.of(0))))
            .groupByKey().count(store("count")).toStream().mapValues(v -> v)
            .to("out", Produced.with(STRING, LONG).withStreamPartitioner((topic, k, v, n) -> v % 2 == 0 ? Optional.of(Set.of(0)) : Optional.empty())));
    }

    private void pattern() {
        operators.put("pattern", b -> to(b.stream(Pattern.compile("in-.*"), Consumed.with(STRING, LONG)).selectKey((k, v) -> group(v))
            .repartition(Repartitioned.with(STRING, LONG).withName("moved"))
            .groupByKey().count(store("count")).toStream(), "out"));
    }

    /** Gives a record other headers. */
    private static final class MapHeaders extends ContextualFixedKeyProcessor<String, Long, Long> {
        private final UnaryOperator<Headers> f;

        private MapHeaders(final UnaryOperator<Headers> f) {
            this.f = f;
        }

        @Override
        public void process(final FixedKeyRecord<String, Long> r) {
            context().forward(r.withHeaders(f.apply(r.headers())));
        }
    }

    private static Headers withoutDrop(final Headers headers) {
        final Headers kept = new RecordHeaders();
        for (final Header h : headers) {
            if (!h.key().equals("drop")) {
                kept.add(h);
            }
        }
        return kept;
    }

    private static void mapHeaders(final StreamsBuilder b, final UnaryOperator<Headers> f) {
        final KStream<String, Long> mapped = in(b).processValues(() -> new MapHeaders(f));
        to(mapped, "out");
    }

    private void headers() {
        operators.put("map-headers", b -> mapHeaders(b, h -> withoutDrop(h).add("seen", new byte[] {1})));
        operators.put("map-headers-to-none", b -> mapHeaders(b, h -> new RecordHeaders()));
        operators.put("with-header", b -> mapHeaders(b, h -> new RecordHeaders(h).add("id", new byte[] {2})));
        operators.put("map-from-nothing", b -> to(in(b).map((k, v) -> KeyValue.pair(k, or(v, -1))), "out"));
    }

    /** Remembers the last value of each key. A null is forgotten, and a record with a null key ends here. */
    private abstract static class Remembering<K, V> extends ContextualProcessor<String, Long, K, V> {
        protected KeyValueStore<String, Long> last;

        @Override
        public void init(final ProcessorContext<K, V> context) {
            super.init(context);
            last = context.getStateStore("last");
        }

        /** Returns the value before. */
        protected Long remember(final Record<String, Long> r) {
            final Long before = last.get(r.key());
            if (r.value() == null) {
                last.delete(r.key());
            } else {
                last.put(r.key(), r.value());
            }
            return before;
        }
    }

    /** Emits each value together with the one before. */
    private static final class Pairs extends Remembering<String, String> {
        @Override
        public void process(final Record<String, Long> r) {
            if (r.key() != null) {
                context().forward(r.withValue(Objects.toString(remember(r), "none") + ">" + Objects.toString(r.value(), "none")));
            }
        }
    }

    /** Does what Pairs does, and cannot change the key. */
    private static final class FixedPairs extends ContextualFixedKeyProcessor<String, Long, String> {
        private KeyValueStore<String, Long> last;

        @Override
        public void init(final FixedKeyProcessorContext<String, String> context) {
            super.init(context);
            last = context.getStateStore("last");
        }

        @Override
        public void process(final FixedKeyRecord<String, Long> r) {
            if (r.key() == null) {
                return;
            }
            final Long before = last.get(r.key());
            if (r.value() == null) {
                last.delete(r.key());
            } else {
                last.put(r.key(), r.value());
            }
            context().forward(r.withValue(Objects.toString(before, "none") + ">" + Objects.toString(r.value(), "none")));
        }
    }

    /** Passes records on. A punctuation emits how many values there are, and then all of them, and forgets the odd ones. */
    private static final class Punctuated extends Remembering<String, Long> {
        private final Set<PunctuationType> times;
        private final boolean asItIs;
        private boolean begun;

        /** Without asItIs the first record fires nothing, and what fires on stream time has the multiple of the interval for its time. */
        private Punctuated(final Set<PunctuationType> times, final boolean asItIs) {
            this.times = times;
            this.asItIs = asItIs;
        }

        @Override
        public void init(final ProcessorContext<String, Long> context) {
            super.init(context);
            if (times.contains(PunctuationType.STREAM_TIME)) {
                context.schedule(Duration.ofMillis(EVERY), PunctuationType.STREAM_TIME, now -> {
                    if (asItIs) {
                        fire(now);
                    } else if (begun) {
                        fire(now / EVERY * EVERY);
                    }
                    begun = true;
                });
            }
            if (times.contains(PunctuationType.WALL_CLOCK_TIME)) {
                context.schedule(Duration.ofMillis(EVERY), PunctuationType.WALL_CLOCK_TIME, this::fire);
            }
        }

        @Override
        public void process(final Record<String, Long> r) {
            if (r.key() != null) {
                remember(r);
                context().forward(r);
            }
        }

        private void fire(final long at) {
            final List<KeyValue<String, Long>> rows = new ArrayList<>();
            try (KeyValueIterator<String, Long> all = last.all()) {
                all.forEachRemaining(rows::add);
            }
            context().forward(new Record<>("rows", (long) rows.size(), at));
            for (final KeyValue<String, Long> row : rows) {
                context().forward(new Record<>(row.key, row.value, at));
                if (row.value % 2 != 0) {
                    last.delete(row.key);
                }
            }
        }
    }

    private static <V> KStream<String, V> process(final StreamsBuilder b, final ProcessorSupplier<String, Long, String, V> supplier) {
        b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("last"), STRING, LONG));
        return in(b).process(supplier, "last");
    }

    private static KStream<String, String> processValues(final StreamsBuilder b) {
        b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("last"), STRING, LONG));
        return in(b).processValues(FixedPairs::new, "last");
    }

    private static void punctuated(final StreamsBuilder b, final boolean asItIs, final PunctuationType... times) {
        to(process(b, () -> new Punctuated(Set.of(times), asItIs)), "out");
    }

    private void processors() {
        operators.put("process", b -> process(b, Pairs::new).to("out", Produced.with(STRING, STRING)));
        operators.put("process-values", b -> processValues(b).to("out", Produced.with(STRING, STRING)));
        operators.put("process-values-count", b -> to(processValues(b).groupByKey(Grouped.with(STRING, STRING))
            .count(store("count")).toStream(), "out"));
        operators.put("punctuate-stream-time", b -> punctuated(b, false, PunctuationType.STREAM_TIME));
        operators.put("punctuate-wall-clock", b -> punctuated(b, false, PunctuationType.WALL_CLOCK_TIME));
        operators.put("punctuate-both", b -> punctuated(b, false, PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME));
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

    private static SessionWindows visits() {
        return SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(SIZE), Duration.ofMillis(GRACE));
    }

    private static SessionWindows gracelessVisits() {
        return SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMillis(SIZE));
    }

    private static void sessions(final KTable<Windowed<String>, Long> t) {
        t.toStream().to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), LONG));
    }

    private static TimeWindowedKStream<String, Long> windowedBy(final StreamsBuilder b, final TimeWindows w) {
        return in(b).groupByKey().windowedBy(w);
    }

    private static TimeWindowedKStream<String, Long> valuesBy(final StreamsBuilder b, final TimeWindows w) {
        return values(b).groupByKey().windowedBy(w);
    }

    private static KTable<Windowed<String>, Long> closed(final KTable<Windowed<String>, Long> t) {
        return t.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()));
    }

    private static TimeWindows graceless() {
        return TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(SIZE));
    }

    private static TimeWindows gracelessHopping() {
        return graceless().advanceBy(Duration.ofMillis(ADVANCE));
    }

    private static KTable<Windowed<String>, Long> count(final TimeWindowedKStream<String, Long> s) {
        return s.count(windowStore("count"));
    }

    private static KTable<Windowed<String>, Long> reduce(final TimeWindowedKStream<String, Long> s) {
        return s.reduce(Long::sum, windowStore("reduce"));
    }

    private static KTable<Windowed<String>, Long> aggregate(final TimeWindowedKStream<String, Long> s) {
        return s.aggregate(() -> 100L, (k, v, agg) -> agg + v, windowStore("aggregate"));
    }

    private void windows() {
        operators.put("count-tumbling", b -> windowed(count(windowedBy(b, tumbling()))));
        operators.put("count-tumbling-no-grace", b -> windowed(count(windowedBy(b, graceless()))));
        operators.put("count-hopping", b -> windowed(count(windowedBy(b, hopping()))));
        operators.put("count-hopping-no-grace", b -> windowed(count(windowedBy(b, gracelessHopping()))));
        operators.put("reduce-tumbling", b -> windowed(reduce(valuesBy(b, tumbling()))));
        operators.put("reduce-hopping", b -> windowed(reduce(valuesBy(b, hopping()))));
        operators.put("aggregate-tumbling", b -> windowed(aggregate(valuesBy(b, tumbling()))));
        operators.put("aggregate-hopping", b -> windowed(aggregate(valuesBy(b, hopping()))));
        operators.put("count-sessions", b -> sessions(in(b).groupByKey().windowedBy(visits()).count(sessionStore("count", GRACE))));
        operators.put("count-sessions-no-grace", b -> sessions(in(b).groupByKey()
            .windowedBy(gracelessVisits()).count(sessionStore("count", 0))));
        operators.put("reduce-sessions", b -> sessions(values(b).groupByKey().windowedBy(visits()).reduce((x, y) -> x - y, sessionStore("reduce", GRACE))));
        operators.put("aggregate-sessions", b -> sessions(values(b).groupByKey().windowedBy(visits())
            .aggregate(() -> 100L, (k, v, agg) -> agg + v, (k, x, y) -> x - y, sessionStore("aggregate", GRACE))));
    }

    private static TimeWindowedKStream<String, Long> onClose(final TimeWindowedKStream<String, Long> s) {
        return s.emitStrategy(EmitStrategy.onWindowClose());
    }

    private static KTable<Windowed<String>, Long> countOnClose(final StreamsBuilder b, final TimeWindows w) {
        return onClose(windowedBy(b, w)).count(keeping("count"));
    }

    private static KTable<Windowed<String>, Long> reduceOnClose(final StreamsBuilder b, final TimeWindows w) {
        return onClose(valuesBy(b, w)).reduce(Long::sum, keeping("reduce"));
    }

    private static KTable<Windowed<String>, Long> aggregateOnClose(final StreamsBuilder b, final TimeWindows w) {
        return onClose(valuesBy(b, w)).aggregate(() -> 100L, (k, v, agg) -> agg + v, keeping("aggregate"));
    }

    private void closings() {
        operators.put("count-tumbling-suppressed", b -> windowed(closed(count(windowedBy(b, tumbling())))));
        operators.put("count-tumbling-on-close", b -> windowed(countOnClose(b, tumbling())));
        operators.put("count-tumbling-no-grace-suppressed", b -> windowed(closed(count(windowedBy(b, graceless())))));
        operators.put("count-tumbling-no-grace-on-close", b -> windowed(countOnClose(b, graceless())));
        operators.put("count-hopping-suppressed", b -> windowed(closed(count(windowedBy(b, hopping())))));
        operators.put("count-hopping-on-close", b -> windowed(countOnClose(b, hopping())));
        operators.put("count-hopping-no-grace-on-close", b -> windowed(countOnClose(b, gracelessHopping())));
        operators.put("reduce-tumbling-suppressed", b -> windowed(closed(reduce(valuesBy(b, tumbling())))));
        operators.put("reduce-tumbling-on-close", b -> windowed(reduceOnClose(b, tumbling())));
        operators.put("reduce-hopping-suppressed", b -> windowed(closed(reduce(valuesBy(b, hopping())))));
        operators.put("reduce-hopping-on-close", b -> windowed(reduceOnClose(b, hopping())));
        operators.put("aggregate-tumbling-suppressed", b -> windowed(closed(aggregate(valuesBy(b, tumbling())))));
        operators.put("aggregate-tumbling-on-close", b -> windowed(aggregateOnClose(b, tumbling())));
        operators.put("aggregate-hopping-suppressed", b -> windowed(closed(aggregate(valuesBy(b, hopping())))));
        operators.put("aggregate-hopping-on-close", b -> windowed(aggregateOnClose(b, hopping())));
    }

    private static SlidingWindows around(final long grace) {
        return SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(SIZE), Duration.ofMillis(grace));
    }

    private static TimeWindowedKStream<String, Long> sliding(final StreamsBuilder b, final long grace) {
        return in(b).groupByKey().windowedBy(around(grace));
    }

    private static KTable<Windowed<String>, Long> removing(final TimeWindowedKStream<String, Long> s) {
        return s.aggregate(() -> 100L, (k, v, agg) -> (agg + v) % 7 == 0 ? null : agg + v, keeping("aggregate"));
    }

    private void sliding() {
        operators.put("count-sliding", b -> windowed(sliding(b, GRACE).count(keeping("count"))));
        operators.put("count-sliding-no-grace", b -> windowed(sliding(b, 0).count(keeping("count"))));
        operators.put("reduce-sliding", b -> windowed(sliding(b, GRACE).reduce((x, y) -> 2 * x - y, keeping("reduce"))));
        operators.put("aggregate-sliding", b -> windowed(removing(sliding(b, GRACE))));
        operators.put("count-sliding-on-close", b -> windowed(onClose(sliding(b, GRACE)).count(keeping("count"))));
        operators.put("count-sliding-no-grace-on-close", b -> windowed(onClose(sliding(b, 0)).count(keeping("count"))));
        operators.put("reduce-sliding-on-close", b -> windowed(onClose(sliding(b, GRACE)).reduce((x, y) -> 2 * x - y, keeping("reduce"))));
        operators.put("aggregate-sliding-on-close", b -> windowed(removing(onClose(sliding(b, GRACE)))));
    }

    /** Two streams with one aggregate. The topics that drop nulls of their own get none, so that both sides count the same. */
    private static CogroupedKStream<String, Long> cogroup(final KStream<String, Long> in, final KStream<String, Long> other) {
        return in.groupByKey().<Long>cogroup((k, v, agg) -> (agg + v) % 7 == 0 ? null : agg + v)
            .cogroup(other.groupByKey(), (k, v, agg) -> 2 * agg - v);
    }

    private static CogroupedKStream<String, Long> cogroup(final StreamsBuilder b) {
        return cogroup(in(b), b.stream("other", Consumed.with(STRING, LONG)));
    }

    private static CogroupedKStream<String, Long> cogroupValues(final StreamsBuilder b) {
        return cogroup(values(b), b.stream("other", Consumed.with(STRING, LONG)).filter((k, v) -> k == null || v != null).mapValues(v -> v));
    }

    /** Each of the two nodes has a stream time of its own there. With this grace nothing is late for either. */
    private static final Duration LONG_GRACE = Duration.ofHours(1);

    private static Materialized<String, Long, SessionStore<Bytes, byte[]>> keepingSessions(final String name) {
        return Materialized.<String, Long>as(Stores.inMemorySessionStore(name, Duration.ofHours(2))).withKeySerde(STRING).withValueSerde(LONG);
    }

    private static Materialized<String, Long, WindowStore<Bytes, byte[]>> keepingLonger(final String name) {
        return Materialized.<String, Long>as(Stores.inMemoryWindowStore(name, Duration.ofHours(2), Duration.ofMillis(SIZE), false))
            .withKeySerde(STRING).withValueSerde(LONG);
    }

    private static KTable<Windowed<String>, Long> cogroupTumbling(final StreamsBuilder b, final Duration grace) {
        return cogroupValues(b).windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(SIZE), grace))
            .aggregate(() -> 100L, keepingLonger("cogroup"));
    }

    private void cogroups() {
        operators.put("cogroup", b -> to(cogroup(b).aggregate(() -> 100L, store("cogroup")).toStream(), "out"));
        operators.put("cogroup-tumbling", b -> windowed(cogroupTumbling(b, LONG_GRACE)));
        operators.put("cogroup-hopping", b -> windowed(cogroupValues(b)
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(SIZE), LONG_GRACE).advanceBy(Duration.ofMillis(ADVANCE)))
            .aggregate(() -> 100L, keepingLonger("cogroup"))));
        operators.put("cogroup-sliding", b -> windowed(cogroup(b)
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(SIZE), LONG_GRACE))
            .aggregate(() -> 100L, keepingLonger("cogroup"))));
        operators.put("cogroup-sessions", b -> sessions(cogroupValues(b)
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(SIZE), LONG_GRACE))
            .aggregate(() -> 100L, (k, x, y) -> x - y, keepingSessions("cogroup"))));
        operators.put("cogroup-of-three", b -> to(cogroup(b).cogroup(b.stream("third", Consumed.with(STRING, LONG)).groupByKey(), (k, v, agg) -> agg - 3)
            .aggregate(() -> 100L, store("cogroup")).toStream(), "out"));
    }

    private static KTable<String, Long> table(final StreamsBuilder b, final String topic) {
        return b.table(topic, Consumed.with(STRING, LONG), store(topic + "-table"));
    }

    private static GlobalKTable<String, Long> global(final StreamsBuilder b) {
        return b.globalTable("other", Consumed.with(STRING, LONG), store("other-table"));
    }

    /** Chooses the row of a global table: none, that of the key, or that of "a". */
    private static String rowOf(final String key, final Long value) {
        if (value == null || value % 5 == 0) {
            return null;
        }
        return value % 2 == 0 ? key : "a";
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
        operators.put("stream-table-join", b -> to(in(b).join(table(b, "other"), Long::sum), "out"));
        operators.put("stream-table-left-join", b -> to(in(b).leftJoin(table(b, "other"), (l, r) -> l + or(r, 1000)), "out"));
        operators.put("global-join", b -> to(in(b).join(global(b), Differential::rowOf, Long::sum), "out"));
        operators.put("global-left-join", b -> to(in(b).leftJoin(global(b), Differential::rowOf, (l, r) -> l + or(r, 1000)), "out"));
        operators.put("stream-own-table-join", b -> {
            final KStream<String, Long> s = in(b);
            to(s.join(s.groupByKey().reduce(Long::sum, store("sums")), (l, sum) -> sum * 1000 + l), "out");
        });
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

    private static <K> Suppressed<K> limit(final Suppressed.BufferConfig<?> buffer) {
        return Suppressed.<K>untilTimeLimit(Duration.ofMillis(SIZE), buffer).withName("limit");
    }

    private void suppressions() {
        operators.put("suppress", b -> to(in(b).groupByKey().count(store("count"))
            .suppress(limit(Suppressed.BufferConfig.unbounded())).toStream(), "out"));
        operators.put("suppress-table", b -> to(table(b, "in").suppress(limit(Suppressed.BufferConfig.unbounded())).toStream(), "out"));
        operators.put("suppress-max-records", b -> to(table(b, "in").suppress(limit(Suppressed.BufferConfig.maxRecords(2))).toStream(), "out"));
        operators.put("suppress-windowed", b -> windowed(count(windowedBy(b, hopping())).suppress(limit(Suppressed.BufferConfig.maxRecords(5)))));
        operators.put("suppress-join", b -> to(table(b, "other").leftJoin(
            table(b, "in").suppress(limit(Suppressed.BufferConfig.unbounded())), (l, r) -> l + or(r, 1000)).toStream(), "out"));
    }

    /** A store of one side of a join. A null leaves it as it is, as it does one in RocksDB. It keeps records for a time of its own. */
    private static InMemoryWindowBytesStoreSupplier joinStore(final String side, final JoinWindows w, final long keeps) {
        return new InMemoryWindowBytesStoreSupplier("join-" + side, w.size() + w.gracePeriodMs(), w.size(), true) {
            @Override
            public WindowStore<Bytes, byte[]> get() {
                return new InMemoryWindowStore(name(), keeps, windowSize(), true, metricsScope()) {
                    @Override
                    public void put(final Bytes key, final byte[] value, final long start) {
                        if (value != null) {
                            super.put(key, value, start);
                        }
                    }
                };
            }
        };
    }

    private static JoinWindows near(final long before, final long after, final long grace) {
        return JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(Math.max(before, after)), Duration.ofMillis(grace))
            .before(Duration.ofMillis(before)).after(Duration.ofMillis(after));
    }

    private static StreamJoined<String, Long, Long> kept(final JoinWindows w) {
        // Where one limit is 0 a record expires before the last moment at which it can meet another one.
        final long keeps = Math.max(w.size(), Math.max(w.beforeMs, w.afterMs) + 1) + w.gracePeriodMs();
        return StreamJoined.<String, Long, Long>with(joinStore("left", w, keeps), joinStore("right", w, keeps))
            .withKeySerde(STRING).withValueSerde(LONG).withOtherValueSerde(LONG).withName("join");
    }

    private static final ValueJoiner<Long, Long, Long> BOTH = (l, r) -> or(l, 2000) * 10000 + or(r, 1000);

    private void streamJoins() {
        streamJoins("", near(SIZE, SIZE, GRACE));
        streamJoins("-no-grace", near(SIZE, SIZE, 0));
        streamJoins("-before-and-after", near(SIZE, ADVANCE, GRACE));
        streamJoins("-after-and-before", near(ADVANCE, SIZE, GRACE));
        streamJoins("-after-only", near(0, SIZE, GRACE));
        streamJoins("-same-time", near(0, 0, 0));
        operators.put("skip-invalid-stream-join", b -> to(in(b, new LogAndSkipOnInvalidTimestamp()).join(b.stream("other",
            Consumed.with(STRING, LONG).withTimestampExtractor(new LogAndSkipOnInvalidTimestamp())),
            BOTH, near(SIZE, SIZE, GRACE), kept(near(SIZE, SIZE, GRACE))), "out"));
        operators.put("stream-left-join-as-it-is", operators.get("stream-left-join"));
    }

    private void streamJoins(final String name, final JoinWindows w) {
        operators.put("stream-join" + name, b -> to(in(b).join(other(b), BOTH, w, kept(w)), "out"));
        operators.put("stream-left-join" + name, b -> to(in(b).leftJoin(other(b), BOTH, w, kept(w)), "out"));
        operators.put("stream-outer-join" + name, b -> to(in(b).outerJoin(other(b), BOTH, w, kept(w)), "out"));
        operators.put("stream-self-join" + name, b -> {
            final KStream<String, Long> s = in(b);
            to(s.join(s, BOTH, w, kept(w)), "out");
        });
        operators.put("stream-outer-self-join" + name, b -> {
            final KStream<String, Long> s = in(b);
            to(s.outerJoin(s, BOTH, w, kept(w)), "out");
        });
    }

    private static KStream<String, Long> other(final StreamsBuilder b) {
        return b.stream("other", Consumed.with(STRING, LONG));
    }

    /** The key that a value names, if it does. */
    private static String foreign(final Long v) {
        final int i = Math.floorMod(v, 5);
        return i == 4 ? null : "abcd".substring(i, i + 1);
    }

    private void foreignKeys() {
        operators.put("foreign-key-join", b -> to(table(b, "in").join(table(b, "other"), v -> foreign(v), (l, r) -> l * 1000 + r,
            TableJoined.<String, String>as("join")).toStream(), "out"));
        operators.put("foreign-key-left-join", b -> to(table(b, "in").leftJoin(table(b, "other"), v -> foreign(v), (l, r) -> l * 1000 + or(r, 999),
            TableJoined.<String, String>as("join")).toStream(), "out"));
        operators.put("foreign-key-computed", b -> to(table(b, "in").mapValues(v -> v * 2).join(table(b, "other").filter((k, v) -> v % 2 == 0),
            v -> foreign(v), (l, r) -> l * 1000 + r, TableJoined.<String, String>as("join")).toStream(), "out"));
        operators.put("foreign-key-own", b -> {
            final KTable<String, Long> table = table(b, "in");
            to(table.join(table, v -> foreign(v), (l, r) -> l * 1000 + r, TableJoined.<String, String>as("join")).toStream(), "out");
        });
    }

    /** How long the history of a versioned table is. */
    private static final long HISTORY = SIZE + GRACE;

    private static Materialized<String, Long, KeyValueStore<Bytes, byte[]>> versions(final String name) {
        return Materialized.<String, Long>as(Stores.persistentVersionedKeyValueStore(name, Duration.ofMillis(HISTORY)))
            .withKeySerde(STRING).withValueSerde(LONG);
    }

    private static KTable<String, Long> versioned(final StreamsBuilder b, final String topic) {
        return b.table(topic, Consumed.with(STRING, LONG), versions(topic + "-table"));
    }

    /** A versioned table that is made of the one in the store. */
    private static KTable<String, Long> computed(final StreamsBuilder b, final String topic) {
        return versioned(b, topic).mapValues(v -> v * 2).filter((k, v) -> v % 3 != 0);
    }

    private static Joined<String, Long, Long> waiting(final long grace) {
        return Joined.with(STRING, LONG, LONG, "join", Duration.ofMillis(grace));
    }

    private void versioned() {
        operators.put("versioned-table", b -> to(versioned(b, "in").toStream(), "out"));
        operators.put("versioned-to-table", b -> to(in(b).toTable(versions("in-table")).toStream(), "out"));
        operators.put("versioned-computed", b -> to(computed(b, "in").toStream(), "out"));
        operators.put("versioned-join", b -> to(versioned(b, "in").join(versioned(b, "other"), Long::sum).toStream(), "out"));
        operators.put("versioned-left-join", b -> to(versioned(b, "in").leftJoin(table(b, "other"), (l, r) -> l + or(r, 1000)).toStream(), "out"));
        operators.put("versioned-outer-join", b -> to(table(b, "in").outerJoin(computed(b, "other"),
            (l, r) -> or(l, 2000) + or(r, 1000)).toStream(), "out"));
        operators.put("versioned-group", b -> to(versioned(b, "in").groupBy((k, v) -> KeyValue.pair(group(v), v), Grouped.with("moved", STRING, LONG))
            .reduce(Long::sum, (agg, v) -> agg - v, versions("reduce")).toStream(), "out"));
        operators.put("versioned-aggregate", b -> to(in(b).groupByKey()
            .aggregate(() -> 100L, (k, v, agg) -> agg + v, versions("aggregate")).toStream(), "out"));
        operators.put("foreign-key-versioned", b -> to(versioned(b, "in").join(versioned(b, "other"), v -> foreign(v), (l, r) -> l * 1000 + r,
            TableJoined.<String, String>as("join")).toStream(), "out"));
        operators.put("foreign-key-versioned-left", b -> to(computed(b, "in").leftJoin(computed(b, "other"), v -> foreign(v),
            (l, r) -> l * 1000 + or(r, 999), TableJoined.<String, String>as("join")).toStream(), "out"));
        operators.put("versioned-stream-join", b -> to(in(b).join(versioned(b, "other"), Long::sum), "out"));
        operators.put("versioned-stream-left-join", b -> to(in(b).leftJoin(computed(b, "other"), (l, r) -> l + or(r, 1000)), "out"));
        operators.put("versioned-stream-sum-join", b -> {
            final KStream<String, Long> s = in(b);
            to(s.join(s.groupByKey().reduce(Long::sum, versions("sums")), (l, sum) -> sum * 1000 + l), "out");
        });
        operators.put("grace-join", b -> to(in(b).join(versioned(b, "other"), Long::sum, waiting(GRACE)), "out"));
        operators.put("grace-join-of-history", b -> to(in(b).join(versioned(b, "other"), Long::sum, waiting(HISTORY)), "out"));
        // A null key stops a join with a grace there.
        operators.put("grace-left-join", b -> to(in(b).filter((k, v) -> k != null).leftJoin(computed(b, "other"),
            (l, r) -> l + or(r, 1000), waiting(GRACE)), "out"));
    }

    /** The value is the time. One that is negative is invalid, unless there is the partition's to take in place of it. */
    private static final class ValueTime implements TimestampExtractor {
        private final boolean usePartitionTime;

        private ValueTime(final boolean usePartitionTime) {
            this.usePartitionTime = usePartitionTime;
        }

        @Override
        public long extract(final ConsumerRecord<Object, Object> record, final long partitionTime) {
            final long time = or((Long) record.value(), record.timestamp());
            return time < 0 && usePartitionTime ? partitionTime : time;
        }
    }

    private static KStream<String, Long> in(final StreamsBuilder b, final TimestampExtractor times) {
        return b.stream("in", Consumed.with(STRING, LONG).withTimestampExtractor(times));
    }

    private void times() {
        operators.put("skip-invalid", b -> to(in(b, new LogAndSkipOnInvalidTimestamp()), "out"));
        operators.put("partition-time-for-invalid", b -> to(in(b, new UsePartitionTimeOnInvalidTimestamp()), "out"));
        operators.put("event-time", b -> windowed(count(in(b, new ValueTime(false)).groupByKey().windowedBy(tumbling()))));
    }

    private static KTable<String, Long> table(final StreamsBuilder b, final String topic, final TimestampExtractor times) {
        return b.table(topic, Consumed.with(STRING, LONG).withTimestampExtractor(times), store(topic + "-table"));
    }

    private static void countByValueTime(final StreamsBuilder b, final boolean usePartitionTime) {
        windowed(count(in(b, new ValueTime(usePartitionTime)).filter((k, v) -> k != null).groupByKey().windowedBy(tumbling())));
    }

    private void invalid() {
        invalid("skip-invalid", new LogAndSkipOnInvalidTimestamp());
        invalid("partition-time", new UsePartitionTimeOnInvalidTimestamp());
        operators.put("skip-invalid-table-join", b -> to(table(b, "in", new LogAndSkipOnInvalidTimestamp())
            .join(table(b, "other", new LogAndSkipOnInvalidTimestamp()), Long::sum).toStream(), "out"));
        operators.put("partition-time-table", b -> to(table(b, "in", new UsePartitionTimeOnInvalidTimestamp()).toStream(), "out"));
        operators.put("event-time-skip-invalid", b -> countByValueTime(b, false));
        operators.put("event-time-partition-time", b -> countByValueTime(b, true));
    }

    private void invalid(final String name, final TimestampExtractor times) {
        operators.put(name + "-count", b -> to(in(b, times).groupByKey().count(store("count")).toStream(), "out"));
        operators.put(name + "-count-tumbling", b -> windowed(count(in(b, times).groupByKey().windowedBy(tumbling()))));
        operators.put(name + "-count-hopping-suppressed", b -> windowed(closed(count(in(b, times).groupByKey().windowedBy(hopping())))));
    }

    /** What differs from ours on purpose. */
    private void differences() {
        operators.put("suppress-grouped", b -> to(table(b, "in").suppress(limit(Suppressed.BufferConfig.unbounded()))
            .groupBy((k, v) -> KeyValue.pair(k, v), Grouped.with("moved", STRING, LONG))
            .reduce(Long::sum, (agg, v) -> agg - v, store("reduce")).toStream(), "out"));
        operators.put("grace-left-join-of-all", b -> to(in(b).leftJoin(versioned(b, "other"), (l, r) -> l + or(r, 1000), waiting(GRACE)), "out"));
        operators.put("cogroup-tumbling-late", b -> windowed(cogroupTumbling(b, Duration.ofMillis(GRACE))));
        operators.put("count-sliding-suppressed", b -> windowed(closed(sliding(b, GRACE).count(keeping("count")))));
        operators.put("punctuate-stream-time-as-it-is", b -> punctuated(b, true, PunctuationType.STREAM_TIME));
        operators.put("partition-time-merge", b -> to(in(b, new UsePartitionTimeOnInvalidTimestamp()).merge(b.stream("other",
            Consumed.with(STRING, LONG).withTimestampExtractor(new UsePartitionTimeOnInvalidTimestamp()))), "out"));
        operators.put("aggregate-grouped", b -> to(in(b).groupByKey().aggregate(() -> 100L, (k, v, agg) -> agg + v, store("aggregate"))
            .groupBy((k, v) -> KeyValue.pair("all", v), Grouped.with("moved", STRING, LONG))
            .reduce(Long::sum, (agg, v) -> agg - v, store("reduce")).toStream(), "out"));
    }
}
